"""The list of what was added to a folder and removed from it, shared by its processes.

Fixed-size records, appended by whoever holds the folder's lock; the first one is a number that
changes whenever the list is written anew. It tells names and heads without a look into a thousand
files; the files themselves are the truth. Invariant: a reader takes whole records only.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from cache.storage.contract import ROOT
from cache.storage.index import Entry

_RECORD = Struct("<c7x16s16sQ")
_EDITION, _ADDED, _REMOVED = b"=", b"+", b"-"


class Change(NamedTuple):
    added: bool
    entry: Entry


class Ledger:
    """Every method raises `OSError` where the file cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._edition = 0  # of the list as it was last seen; 0 means never
        self._offset = 0

    def news(self) -> tuple[list[Change], bool]:
        """What was written since the last look, and whether the whole list was written anew: then
        the changes are all there are."""
        try:
            file = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return [], False
        try:
            edition = _edition(os.pread(file, _RECORD.size, 0))
            anew = edition != self._edition
            if anew:
                self._edition, self._offset = edition, _RECORD.size
            data = os.pread(file, max(0, os.fstat(file).st_size - self._offset), self._offset)
        finally:
            os.close(file)
        whole = len(data) // _RECORD.size * _RECORD.size
        self._offset += whole
        return [_change(data, at) for at in range(0, whole, _RECORD.size)], anew

    def append(self, changes: Iterable[Change]) -> None:
        """Under the folder's lock, and after `news`: what this process has changed itself."""
        data = b"".join(_record(change) for change in changes)
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            _write_all(file, data)
        finally:
            os.close(file)
        self._offset += len(data)

    def rewrite(self, entries: Iterable[Entry]) -> None:
        """Under the folder's lock, and after `news`: exactly these, heads first."""
        edition = self._edition + 1
        records = [_RECORD.pack(_EDITION, ROOT, ROOT, edition)]
        records += (_record(Change(True, entry)) for entry in entries)
        data = b"".join(records)
        draft = self._path.with_suffix(".draft")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            _write_all(file, data)
        finally:
            os.close(file)
        os.replace(draft, self._path)
        self._edition, self._offset = edition, len(data)

    @property
    def records(self) -> int:
        """Read or written so far."""
        return self._offset // _RECORD.size


def _edition(data: bytes) -> int:
    """0 where there is none."""
    if len(data) < _RECORD.size:
        return 0
    kind, _, _, edition = _RECORD.unpack(data)
    return int(edition) if kind == _EDITION else 0


def _record(change: Change) -> bytes:
    key, head, size_bytes = change.entry
    return _RECORD.pack(_ADDED if change.added else _REMOVED, key, head, size_bytes)


def _change(data: bytes, at: int) -> Change:
    kind, key, head, size_bytes = _RECORD.unpack_from(data, at)
    return Change(kind == _ADDED, Entry(key, head, size_bytes))


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
