"""A table on disk that only ever holds whole lines.

Rows are buffered and reach the file in one system call, so a process killed at any moment leaves
every flushed row readable. A full disk loses rows, never the run: what could not be written is
counted, and the file is cut back to its last whole line.
"""

import os
from contextlib import suppress
from pathlib import Path

from harness.record.directory import LostOutput, reason_of

BUFFERED_LINES = 256


class LineFile:
    """An append-only text file of whole lines; at most `BUFFERED_LINES` of them wait in memory."""

    def __init__(self, path: Path, *, header: str = "") -> None:
        self._path = path
        self._buffer: list[str] = []
        self._size_bytes = 0
        self._lost_lines = 0
        self._reason = ""
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        except OSError as error:
            self._reason = reason_of(error)
        if header:
            self.append(header)
            self.flush()

    def append(self, line: str) -> None:
        """Add one line (without its end; a line end inside becomes a space)."""
        if "\n" in line or "\r" in line:
            line = line.replace("\r", " ").replace("\n", " ")
        self._buffer.append(line)
        if len(self._buffer) >= BUFFERED_LINES:
            self.flush()

    def flush(self) -> None:
        """Hand every buffered line to the system, or count it as lost."""
        if not self._buffer:
            return
        data = ("\n".join(self._buffer) + "\n").encode()
        self._buffer.clear()
        self._size_bytes += self._write(data)

    def replace(self, lines: list[str]) -> None:
        """Put `lines` in the place of everything written so far, in one step."""
        draft = self._path.with_name(f".{self._path.name}.draft")
        data = ("\n".join(lines) + "\n").encode()
        try:
            draft.write_bytes(data)
            fd = os.open(draft, os.O_WRONLY | os.O_APPEND)
            os.replace(draft, self._path)
        except OSError as error:
            self._reason = reason_of(error)
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            return
        self._shut()
        self._fd, self._size_bytes, self._lost_lines = fd, len(data), 0
        self._buffer.clear()

    def close(self) -> LostOutput | None:
        """Flush and close; return what did not fit, if anything."""
        self.flush()
        self._shut()
        if self._lost_lines:
            return LostOutput(self._path.name, self._lost_lines, self._reason)
        return None

    def _write(self, data: bytes) -> int:
        """Write all of `data` or as many whole lines as fit; return the bytes that stay."""
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, data[done:])
        except OSError as error:
            kept = data.rfind(b"\n", 0, done) + 1
            self._reason = self._reason if self._fd < 0 else reason_of(error)
            self._lost_lines += data.count(b"\n", kept)
            with suppress(OSError):
                os.ftruncate(self._fd, self._size_bytes + kept)
                os.lseek(self._fd, self._size_bytes + kept, os.SEEK_SET)
            return kept
        return done

    def _shut(self) -> None:
        if self._fd >= 0:
            with suppress(OSError):
                os.close(self._fd)
        self._fd = -1
