"""Bounded-exhaustive search: every order of a small scenario, or every order within a bound.

Depth first over the choices, each run from the start. With state hashing a run is given up where
it comes to a state that was seen before with as much left to spend.

Invariant: "complete" is said only if every order within the bounds was run or led to a state from
which all continuations were run.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from harness.explore.kernel import State, Task
from harness.explore.outcome import Outcome
from harness.explore.pickers import Chooser
from harness.explore.tape import Choice

UNLIMITED = 1 << 30


class Bounds(NamedTuple):
    """How far from the natural order a run may go.

    ``preemptions``: switches away from a task that could go on. ``deviations``: choices other than
    the natural one, preemptions included. ``faults``: draws other than 0. A sweep of single faults
    is ``Bounds(deviations=0, faults=1)``; an abort that would naturally come last is tried at every
    point by ``Bounds(deviations=1, faults=0)``.
    """

    preemptions: int = UNLIMITED
    deviations: int = UNLIMITED
    faults: int = UNLIMITED

    def covers(self, other: "Bounds") -> bool:
        """At least as much is left here as there, of everything."""
        return (
            self.preemptions >= other.preemptions
            and self.deviations >= other.deviations
            and self.faults >= other.faults
        )

    def __str__(self) -> str:
        limits = [f"{n} {name}" for name, n in self._asdict().items() if n < UNLIMITED]
        return "at most " + ", ".join(limits) if limits else "no bound"


class Exhausted(NamedTuple):
    """``stopped_at`` is empty when the search is complete within its bounds.

    ``states`` counts distinct states at choices; without state hashing it is 0. ``found`` has the
    first outcome of each verdict class.
    """

    stopped_at: str
    bounds: Bounds
    states: int
    schedules: int
    steps: int
    found: tuple[Outcome, ...]

    @property
    def complete(self) -> bool:
        return not self.stopped_at

    def __str__(self) -> str:
        size = f"{self.states:,} states" if self.states else f"{self.schedules:,} schedules"
        head = f"complete: {size}" if self.complete else f"stopped at {self.stopped_at}: {size}"
        within = "" if self.bounds == Bounds() else f" with {self.bounds}"
        return f"{head}{within}, {len(self.found)} kinds of violations"


class Progress(NamedTuple):
    """A task's place: enough when its own variables follow from the number of its steps."""

    name: str
    steps: int
    state: State


def exhaust(
    run: Callable[[Chooser], Outcome],
    *,
    bounds: Bounds = Bounds(),  # noqa: B008  # an immutable tuple
    schedule_limit: int = 1_000_000,
    go_on: Callable[[], bool] = lambda: True,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> Exhausted:
    """Run every order within ``bounds``.

    States are hashed when the scenario has set ``Kernel.state_key``. A state is what that returns,
    and each task's state and number of steps. The marks of paths that were given up are lost: take
    coverage from sampling. A run that meets the step limit makes the search incomplete.
    """
    walk = _Walk(bounds)
    schedules = steps = 0
    found: dict[str, Outcome] = {}
    stopped_at = ""
    while True:
        if schedules >= schedule_limit:
            stopped_at = f"{schedule_limit:,} schedules"
            break
        if not go_on():
            stopped_at = "the end of its time"
            break
        outcome = run(walk)
        schedules += 1
        steps += outcome.steps
        if on_outcome is not None:
            on_outcome(outcome)
        if outcome.verdict is not None:
            found.setdefault(outcome.verdict.kind, outcome)
        if outcome.ended.reason == "step_limit":
            stopped_at = f"the limit of {outcome.steps:,} steps"
        if not walk.advance():
            break
    return Exhausted(stopped_at, bounds, walk.states, schedules, steps, tuple(found.values()))


class _Walk:
    """The chooser of all runs: repeats the path so far, then takes 0 and notes the alternatives."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._path: list[Choice] = []
        self._seen: dict[Hashable, list[Bounds]] = {}
        self._at = 0
        self._left = bounds
        self._given_up = False

    @property
    def states(self) -> int:
        return len(self._seen)

    def advance(self) -> bool:
        """Turn to the next path; False when there is none."""
        while self._path:
            label, value, bound = self._path.pop()
            if value + 1 < bound:
                self._path.append(Choice(label, value + 1, bound))
                self._at, self._left, self._given_up = 0, self._bounds, False
                return True
        return False

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        if self._given_up:
            return 0
        left = self._left
        if self._at >= len(self._path) and self._been_here(runnable[0], current):
            self._given_up = True
            runnable[0].kernel.stop()
            return 0
        if left.deviations == 0 or (current is not None and left.preemptions == 0):
            return 0
        value = self._choose("task", len(runnable))
        if value:
            preempts = current is not None
            self._left = Bounds(left.preemptions - preempts, left.deviations - 1, left.faults)
        return value

    def draw(self, label: str, bound: int) -> int:
        if self._given_up or self._left.faults == 0:
            return 0
        value = self._choose(label, bound)
        if value:
            self._left = self._left._replace(faults=self._left.faults - 1)
        return value

    def _choose(self, label: str, bound: int) -> int:
        at = self._at
        self._at += 1
        if at == len(self._path):
            self._path.append(Choice(label, 0, bound))
        choice = self._path[at]
        assert (choice.label, choice.bound) == (label, bound), "the scenario does not repeat itself"
        return choice.value

    def _been_here(self, task: Task, current: Task | None) -> bool:
        """Whether everything from here on was, or will be, covered from an earlier visit."""
        kernel = task.kernel
        if kernel.state_key is None:
            return False
        tasks = tuple([Progress(t.name, t.steps, t.state) for t in kernel.tasks])
        key = (tasks, self._turn(current), kernel.state_key())
        budgets = self._seen.setdefault(key, [])
        if any(earlier.covers(self._left) for earlier in budgets):
            return True
        budgets.append(self._left)
        return False

    def _turn(self, current: Task | None) -> int:
        """Whose turn it is, where that decides what a switch or a deviation costs."""
        if self._bounds.preemptions == UNLIMITED and self._bounds.deviations == UNLIMITED:
            return -1
        return current.number if current is not None else -1
