"""The directory a run leaves behind.

`results/<YYYYmmdd-HHMMSS>-<tag>/` exists only when it can be written to, and a whole file in it
(`run.json`, `summary.json`, a plot, the report) is either absent, old, or complete: it is written
under another name and renamed.
"""

import errno
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Self

from harness.record.strict_json import to_page

RUN_FILE = "run.json"
TAG_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class UsageError(Exception):
    """Something the user typed cannot be done; the message is one line that says what to type."""


class LostOutput(NamedTuple):
    """What could not be written: `rows` whole rows of a table, or the whole file when it is 0."""

    file: str
    rows: int
    reason: str

    def sentence(self) -> str:
        what = f"{self.rows:,} rows of {self.file}" if self.rows else self.file
        return f"{what} could not be written: {self.reason}"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """One run's directory; `path` exists and was writable when this was made."""

    path: Path

    @classmethod
    def create(cls, output_dir: Path, tag: str, *, now: datetime | None = None) -> Self:
        """Make a fresh directory below `output_dir` with a `run.json` that says "running".

        A name that is taken gets `-2`, `-3`, ... Raises `UsageError`, and leaves nothing behind,
        when the tag is not a file name or the directory cannot be written to.
        """
        if not TAG_PATTERN.fullmatch(tag):
            raise UsageError(
                f"--tag {tag!r}: use letters, digits, dots, dashes and underscores, "
                "such as --tag night-1"
            )
        made: list[Path] = []
        try:
            _make_parents(output_dir, made)
            path = _make_fresh(output_dir, f"{now or datetime.now():%Y%m%d-%H%M%S}-{tag}")
            made.append(path)
            directory = cls(path)
            lost = directory.write(
                RUN_FILE, to_page({"schema": 1, "status": "running", "tag": tag})
            )
        except OSError as error:
            _remove(made)
            raise _unwritable(output_dir, reason_of(error)) from None
        if lost is not None:
            _remove(made)
            raise _unwritable(output_dir, lost.reason)
        return directory

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the run directory at `path`; raises `UsageError` when it holds no run."""
        if not (path / RUN_FILE).is_file():
            raise UsageError(
                f"{path}: no {RUN_FILE} in it; name a run directory, "
                "such as results/20260101-120000-soak"
            )
        return cls(path)

    def write(self, name: str, content: str | bytes) -> LostOutput | None:
        """Put a whole file in place in one step; an old one stays when that cannot be done."""
        data = content.encode() if isinstance(content, str) else content
        draft = self.path / f".{name}.draft"
        try:
            draft.write_bytes(data)
            os.replace(draft, self.path / name)
        except OSError as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            return LostOutput(name, 0, reason_of(error))
        return None

    def discard(self) -> None:
        """Remove the directory if nothing but the first `run.json` is in it (a run that never
        began).
        """
        if [file.name for file in self.path.iterdir()] == [RUN_FILE]:
            (self.path / RUN_FILE).unlink()
            self.path.rmdir()


def reason_of(error: OSError) -> str:
    """Return the system's words for `error`, without the path that Python adds to them."""
    if error.errno == errno.EFBIG:
        return "file size limit reached"
    return (error.strerror or type(error).__name__).lower()


def _make_parents(path: Path, made: list[Path]) -> None:
    missing = [path, *path.parents]
    missing = missing[: next(i for i, parent in enumerate(missing) if parent.exists())]
    for parent in reversed(missing):
        parent.mkdir(exist_ok=True)
        made.append(parent)


def _make_fresh(output_dir: Path, stem: str) -> Path:
    number = 1
    while True:
        path = output_dir / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path


def _remove(made: list[Path]) -> None:
    for path in reversed(made):
        with suppress(OSError):
            (path / RUN_FILE).unlink(missing_ok=True)
            path.rmdir()


def _unwritable(output_dir: Path, reason: str) -> UsageError:
    return UsageError(
        f"--output-dir {output_dir}: {reason}; name a directory you may write to, "
        "such as --output-dir results"
    )
