"""Trace files of one JSON object a line or of columns, and checked access to the fields.

Blank lines, CRLF, a byte order mark, a missing last newline and gzip are fine; anything else that
is not what was expected raises `TraceError` with the file and the line.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import file_digest, sha256
from io import TextIOWrapper
from os import PathLike
from pathlib import Path as FilePath
from typing import IO, Any, NoReturn, cast

from workloads.errors import TraceError, shown

MAX_LENGTH = (1 << 31) - 1
MAX_TIME = 1 << 53
MAX_ID = (1 << 64) - 1

Path = str | PathLike[str]
_BROKEN = (OSError, EOFError, zlib.error)  # the last two: gzip that ends early or is none


@dataclass(frozen=True, slots=True)
class Line:
    """One object of a file, with its place for error messages."""

    path: Path
    number: int
    fields: dict[str, object]

    def integer(self, name: str, *, at_least: int, at_most: int = MAX_LENGTH) -> int:
        """The field as an integer in [at_least, at_most]."""
        expected = f"{name} as an integer of at least {at_least}"
        value = self._present(name, expected)
        if type(value) is not int or not at_least <= value <= at_most:
            self.refuse(expected, shown(value))
        return value

    def time(self, name: str) -> float:
        """The field as a finite number of at least 0."""
        expected = f"{name} as a number of at least 0"
        value = self._present(name, expected)
        if type(value) is int and 0 <= value <= MAX_TIME:
            return value
        if type(value) is float and math.isfinite(value) and 0 <= value <= MAX_TIME:
            return value
        self.refuse(expected, shown(value))

    def text(self, name: str) -> str:
        """The field as a string that is not empty."""
        expected = f"{name} as a string that is not empty"
        value = self._present(name, expected)
        if not isinstance(value, str) or not value:
            self.refuse(expected, shown(value))
        return value

    def label(self, name: str) -> str:
        """The field as a name: a string that is not empty, or an integer in decimal."""
        if type(value := self.fields.get(name)) is int:
            return str(value)
        return self.text(name)

    def objects(self, name: str) -> list[dict[str, object]]:
        """The field as a list of objects."""
        expected = f"{name} as a list of JSON objects"
        value = self._list(name, expected)
        if not all(isinstance(item, dict) for item in value):
            self.refuse(expected, "something else in the list")
        return value

    def ids(self, name: str) -> tuple[int, ...]:
        """The field as a list of at least one integer, each in [0, 2**64)."""
        return self.signed_ids(name, at_least=0)

    def signed_ids(self, name: str, *, at_least: int = -(1 << 63)) -> tuple[int, ...]:
        """The field as a list of at least one integer, each in [at_least, 2**64)."""
        expected = f"{name} as a list of integers of at least {at_least}"
        value = self._list(name, expected)
        if not value:
            self.refuse(expected, "an empty list")
        if set(map(type, value)) != {int} or min(value) < at_least or max(value) > MAX_ID:
            wrong = next(
                item for item in value if type(item) is not int or not at_least <= item <= MAX_ID
            )
            self.refuse(expected, f"{shown(wrong)} in the list")
        return tuple(value)

    def refuse(self, expected: str, found: str) -> NoReturn:
        """Raise the error that names this line."""
        raise TraceError(self.path, self.number, expected, found)

    def _list(self, name: str, expected: str) -> list[Any]:
        value = self._present(name, expected)
        if not isinstance(value, list):
            self.refuse(expected, shown(value))
        return value

    def _present(self, name: str, expected: str) -> object:
        if name not in self.fields:
            self.refuse(expected, "no such field")
        return self.fields[name]


def json_lines(path: Path) -> Iterator[Line]:
    """The objects of `path` in order, read while iterating; line numbers count from 1."""
    try:
        with _opened(path) as file:
            for number, raw in enumerate(file, 1):
                if raw.strip():
                    yield Line(path, number, _parsed(path, number, raw))
    except _BROKEN as error:
        raise _unreadable(path, error) from None


def json_file(path: Path) -> Line:
    """The whole file as one object."""
    try:
        with _opened(path) as file:
            return Line(path, 0, _parsed(path, 0, file.read()))
    except _BROKEN as error:
        raise _unreadable(path, error) from None


def csv_lines(
    path: Path, columns: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Iterator[Line]:
    """The rows below the header, which must have `columns` and may have others.

    Fields are those and the `optional` ones there are; what looks like a number is one.
    """
    try:
        with _opened(path) as file, TextIOWrapper(file, "utf-8-sig", newline="") as text:
            rows = csv.reader(text)
            header = [cell.strip() for cell in next(rows, [])]
            if lacking := [name for name in columns if name not in header]:
                named = ", ".join(columns)
                raise TraceError(path, 1, f"the columns {named}", f"no {', '.join(lacking)}")
            wanted = [name for name in (*columns, *optional) if name in header]
            places = [(name, header.index(name)) for name in wanted]
            for cells in rows:
                if any(cells):
                    width = len(cells)
                    fields = {name: _number(cells[at]) for name, at in places if at < width}
                    yield Line(path, rows.line_num, fields)
    except UnicodeDecodeError:
        raise TraceError(path, 0, "UTF-8 text", "other bytes") from None
    except csv.Error as error:
        raise TraceError(path, 0, "comma-separated values", str(error)) from None
    except _BROKEN as error:
        raise _unreadable(path, error) from None


def head_of(path: Path, size: int) -> bytes:
    """The first bytes of the file's content."""
    try:
        with _opened(path) as file:
            return file.read(size)
    except _BROKEN as error:
        raise _unreadable(path, error) from None


def sha256_of(path: Path) -> str:
    """The sha256 of the file's bytes, in hexadecimal; of a folder, that of its files' by name."""
    if (place := FilePath(path)).is_dir():
        digests = (f"{file.name} {sha256_of(file)}\n" for file in sorted(place.glob("*.json")))
        return sha256("".join(digests).encode()).hexdigest()
    try:
        with open(path, "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from None


def _opened(path: Path) -> IO[bytes]:
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path, "rb")) if packed else open(path, "rb")


def _number(cell: str) -> object:
    cell = cell.strip()
    if cell.isdecimal():
        return int(cell)
    try:
        return float(cell)
    except ValueError:
        return cell


def _parsed(path: Path, number: int, raw: bytes) -> dict[str, object]:
    expected = "a JSON object"
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise TraceError(path, number, "UTF-8 text", shown(raw)) from None
    except (ValueError, RecursionError):
        found = shown(raw.decode("utf-8-sig").strip())
        raise TraceError(path, number, expected, f"{found}, which is not valid JSON") from None
    if not isinstance(value, dict):
        raise TraceError(path, number, expected, shown(value))
    return value


def _unreadable(path: Path, error: Exception) -> TraceError:
    said = getattr(error, "strerror", None) or str(error)
    return TraceError(path, 0, "a trace file that can be read", said)
