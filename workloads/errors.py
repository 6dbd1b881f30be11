"""What a user did wrong, said in one line."""

from __future__ import annotations


class WorkloadError(ValueError):
    """A workload cannot be built as asked; the text is one line that says what would be right."""


class TraceError(WorkloadError):
    """A trace file cannot be read: which file and line, what was expected, what was found."""

    def __init__(self, path: object, line: int, expected: str, found: str) -> None:
        self.path = str(path)
        self.line = line
        self.expected = expected
        self.found = found
        where = f"{self.path}:{line}" if line else self.path
        super().__init__(f"{where}: expected {expected}, found {found}")


def shown(value: object) -> str:
    """`value` for a one-line message: its repr, cut after 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
