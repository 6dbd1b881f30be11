"""How long runs are, learnt from the runs so far; URW and PCT need it.

Invariant: an estimate is made of earlier runs alone, never of the one it is used for.
"""

from collections import Counter
from typing import NamedTuple

from harness.explore.tape import Tape

_DIGITS = str.maketrans("", "", "0123456789")


class Estimate(NamedTuple):
    """Means over earlier runs: choices of a run, tasks of a run, steps of a task of each family."""

    choices: float = 50.0
    tasks: float = 4.0
    steps: dict[str, float] = {}  # noqa: RUF012  # never written to


class Estimator:
    """Keeps running means; scenarios differ, so old runs fade out."""

    def __init__(self) -> None:
        self._choices = 0.0
        self._tasks = 0.0
        self._steps: dict[str, float] = {}

    def observe(self, tape: Tape) -> None:
        """Learn from the tape of a run."""
        by_task = Counter(tape.order)
        for name, steps in by_task.items():
            key = family(name)
            self._steps[key] = _fade(self._steps.get(key, 0.0), steps)
        self._choices = _fade(self._choices, len(tape.values))
        self._tasks = _fade(self._tasks, len(by_task))

    def estimate(self) -> Estimate:
        """What to expect of the next run."""
        if not self._steps:
            return Estimate()
        return Estimate(max(1.0, self._choices), max(1.0, self._tasks), self._steps)


def family(name: str) -> str:
    """The name of a task without its numbers: R7 and R12 are of one family."""
    return name.translate(_DIGITS)


def _fade(mean: float, value: float) -> float:
    return mean + (value - mean) / 16 if mean else float(value)
