"""Trace files of one JSON object a line, and checked access to the objects' fields.

Blank lines, CRLF, a byte order mark and a missing last newline are fine; anything else that is not
what was expected raises `TraceError` with the file and the line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import file_digest
from os import PathLike
from typing import NoReturn

from workloads.errors import TraceError, shown

MAX_LENGTH = (1 << 31) - 1
MAX_TIME = 1 << 53
MAX_ID = (1 << 64) - 1

Path = str | PathLike[str]


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

    def ids(self, name: str) -> tuple[int, ...]:
        """The field as a list of at least one integer, each in [0, 2**64)."""
        expected = f"{name} as a list of integers of at least 0"
        value = self._present(name, expected)
        if not isinstance(value, list):
            self.refuse(expected, shown(value))
        if not value:
            self.refuse(expected, "an empty list")
        if set(map(type, value)) != {int} or min(value) < 0 or max(value) > MAX_ID:
            wrong = next(item for item in value if type(item) is not int or not 0 <= item <= MAX_ID)
            self.refuse(expected, f"{shown(wrong)} in the list")
        return tuple(value)

    def refuse(self, expected: str, found: str) -> NoReturn:
        """Raise the error that names this line."""
        raise TraceError(self.path, self.number, expected, found)

    def _present(self, name: str, expected: str) -> object:
        if name not in self.fields:
            self.refuse(expected, "no such field")
        return self.fields[name]


def json_lines(path: Path) -> Iterator[Line]:
    """The objects of `path` in order, read while iterating; line numbers count from 1."""
    try:
        with open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                if raw.strip():
                    yield Line(path, number, _parsed(path, number, raw))
    except OSError as error:
        raise _unreadable(path, error) from None


def sha256_of(path: Path) -> str:
    """The sha256 of the file's bytes, in hexadecimal."""
    try:
        with open(path, "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from None


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


def _unreadable(path: Path, error: OSError) -> TraceError:
    return TraceError(path, 0, "a trace file that can be read", error.strerror or str(error))
