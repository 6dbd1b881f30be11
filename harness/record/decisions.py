"""What a clock decided: which task went on, at which point of its life, and when.

With them a run on the wall clock can be followed on no clock at all: whatever else it did follows
from its settings. Invariant: one line a segment, in order.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness.record.directory import LostOutput
from harness.record.lines import LineFile

FILE = "decisions.csv"
HEADER = "task,now_ns,point"
FLUSH_NS = 1_000_000_000


class Decision(NamedTuple):
    """Task number `task` went on at `now_ns` of the run's clock; it announced `point` before."""

    task: int
    now_ns: int
    point: str


class BadDecisions(ValueError):
    """A file that is no list of decisions; one line says why."""


class Decisions:
    """The file of a run, while it grows."""

    def __init__(self, folder: Path) -> None:
        self._file = LineFile(folder / FILE, header=HEADER)
        self._flushed_ns = 0

    def add(self, task: int, now_ns: int, point: str) -> None:
        """It is on disk after 256 more of them or with the first one a second later."""
        self._file.append(f"{task},{now_ns},{point}")
        if now_ns - self._flushed_ns >= FLUSH_NS:
            self._flushed_ns = now_ns
            self._file.flush()

    def close(self) -> LostOutput | None:
        return self._file.close()


def read_decisions(folder: Path) -> Iterator[Decision]:
    """Those of a run directory, one by one. Raises `BadDecisions`."""
    try:
        lines = (folder / FILE).open(encoding="utf-8")
    except OSError:
        raise BadDecisions(f"{folder} has no {FILE}: only runs on the wall clock do") from None
    with lines:
        if next(lines, "").strip() != HEADER:
            raise BadDecisions(f"{folder / FILE} does not begin with {HEADER}")
        for number, line in enumerate(lines, 2):
            task, comma, rest = line.rstrip("\n").partition(",")
            now_ns, other, point = rest.partition(",")
            if not (comma and other and task.isdigit() and now_ns.isdigit() and point):
                raise BadDecisions(f"{folder / FILE}, line {number}: not a decision: {line!r}")
            yield Decision(int(task), int(now_ns), point)
