"""The tape of a run: its order of steps and its draws, enough to repeat it exactly.

The order names the task of *every* step, forced ones included: a name means the same after a task
was dropped or a knob lowered, where an index would not. Draws are kept with label and bound.

Invariant: replaying a tape strictly on the same scenario gives the same digest, or raises.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from harness.explore.kernel import Point


class Choice(NamedTuple):
    """One decision: ``value`` out of 0..bound-1, where 0 is the natural or benign one."""

    label: str
    value: int
    bound: int


class Named(Protocol):
    """The part of a task that a replay looks at."""

    @property
    def name(self) -> str: ...

    @property
    def steps(self) -> int: ...


class Divergence(Exception):
    """A strict replay met a run that is not the one on the tape."""

    def __init__(self, step: int, expected: str, runnable: Sequence[str]) -> None:
        self.step = step
        self.expected = expected
        self.runnable = tuple(runnable)
        super().__init__(step, expected, self.runnable)

    def __str__(self) -> str:
        possible = ", ".join(self.runnable) or "none"
        return (
            f"replay diverged at step {self.step}: expected {self.expected}, "
            f"possible were {possible}"
        )


class Tape:
    """What one run chose.

    ``order`` has one task name per step and ``points`` what each step was; ``values`` and
    ``bounds`` have one entry per step at which two tasks or more could run. The latter three are
    written by a search and are empty on a tape read from a file.
    """

    __slots__ = ("bounds", "draws", "order", "points", "values")

    def __init__(self, order: Iterable[str] = (), draws: Iterable[Choice] = ()) -> None:
        self.order: list[str] = list(order)
        self.draws: list[Choice] = list(draws)
        self.points: list[Point] = []
        self.values: list[int] = []
        self.bounds: list[int] = []

    def record_draw(self, label: str, value: int, bound: int) -> None:
        """Note a labelled draw."""
        self.draws.append(Choice(label, value, bound))

    @property
    def picks(self) -> list[Choice]:
        """The choices among runnable tasks, in order."""
        return [Choice("task", v, b) for v, b in zip(self.values, self.bounds, strict=True)]

    @property
    def switches(self) -> int:
        """How often the next step is another task's."""
        return sum(a != b for a, b in zip(self.order, self.order[1:], strict=False))

    def to_json(self) -> dict[str, Any]:
        """Run-length coded, for example ``{"order": [["P0", 2]], "draws": [["fail", 0, 2, 5]]}``.

        A row of the order is task and repeat, one of the draws label, value, bound and repeat.
        """
        return {
            "order": [[name, len(list(run))] for name, run in groupby(self.order)],
            "draws": [[*choice, len(list(run))] for choice, run in groupby(self.draws)],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Tape":
        """The tape of ``to_json``; raises ValueError with one line on anything else."""
        try:
            order = [str(name) for name, count in data["order"] for _ in range(_count(count))]
            draws = [
                Choice(str(label), int(value), int(bound))
                for label, value, bound, count in data["draws"]
                for _ in range(_count(count))
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a tape: {error!r}") from None
        for choice in draws:
            if not 0 <= choice.value < choice.bound:
                raise ValueError(f"not a tape: draw {choice.label!r} is out of range")
        return cls(order, draws)


class StrictReplay:
    """Repeats a tape step by step and raises ``Divergence`` at the first difference.

    Steps that left no choice are compared through the tape that the search writes meanwhile, which
    it hands over with ``watch``; after the run it calls ``finish``.
    """

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._recorded = Tape()
        self._checked = 0
        self._drawn = 0

    def watch(self, recorded: Tape) -> None:
        """Compare with what the search records on ``recorded``."""
        self._recorded = recorded

    def pick(self, runnable: Sequence[Named], current: Named | None) -> int:
        self._check_forced()
        step, names = self._checked, [task.name for task in runnable]
        expected = self._tape.order[step] if step < len(self._tape.order) else "the end"
        if expected not in names:
            raise Divergence(step + 1, expected, names)
        return names.index(expected)

    def draw(self, label: str, bound: int) -> int:
        draws, at = self._tape.draws, self._drawn
        self._drawn += 1
        found = f"draw {label} of {bound}"
        step = len(self._recorded.order)
        if at >= len(draws):
            raise Divergence(step, "no further draw", [found])
        if draws[at].label != label or draws[at].bound != bound:
            raise Divergence(step, f"draw {draws[at].label} of {draws[at].bound}", [found])
        return draws[at].value

    def finish(self) -> None:
        """Raise unless the run took every step and every draw of the tape, and no other."""
        self._check_forced()
        if self._checked < len(self._tape.order):
            raise Divergence(self._checked + 1, self._tape.order[self._checked], [])
        if self._drawn < len(self._tape.draws):
            raise Divergence(self._checked, f"draw {self._tape.draws[self._drawn].label}", [])

    def _check_forced(self) -> None:
        wanted, got = self._tape.order, self._recorded.order
        for step in range(self._checked, len(got)):
            expected = wanted[step] if step < len(wanted) else "the end"
            if expected != got[step]:
                raise Divergence(step + 1, expected, [got[step]])
        self._checked = len(got)


class LenientReplay:
    """Follows a tape as far as it makes sense: skips what cannot be done, takes 0 when it ends.

    The n-th mention of a task stands for its n-th segment, so the order stays aligned when a
    segment that had to be chosen is now the only one possible, or the other way round. Draws are
    taken label by label.
    """

    def __init__(self, tape: Tape) -> None:
        self._events: deque[tuple[str, int]] = deque()
        self._draws: defaultdict[str, deque[int]] = defaultdict(deque)
        seen: defaultdict[str, int] = defaultdict(int)
        for name in tape.order:
            self._events.append((name, seen[name]))
            seen[name] += 1
        for label, value, _ in tape.draws:
            self._draws[label].append(value)

    def pick(self, runnable: Sequence[Named], current: Named | None) -> int:
        while self._events:
            name, segment = self._events.popleft()
            for at, task in enumerate(runnable):
                if task.name == name and task.steps <= segment:
                    return at
        return 0

    def draw(self, label: str, bound: int) -> int:
        values = self._draws[label]
        value = values.popleft() if values else 0
        return value if value < bound else 0


class PointReplay:
    """Follows a tape into a world whose tasks take other steps than those on it, such as one of a
    coarser grain: skips every mention of a step that its task has not come to, or has behind it.

    Needs the points of a recorded tape, and ``watch``, as ``StrictReplay`` does.
    """

    def __init__(self, tape: Tape) -> None:
        assert len(tape.points) == len(tape.order), "the tape of a run, not of a file"
        self._steps: deque[tuple[str, str, int]] = deque()
        self._draw = LenientReplay(Tape((), tape.draws)).draw
        self._recorded = Tape()
        self._counted = 0
        self._done: Counter[tuple[str, str]] = Counter()
        seen: Counter[tuple[str, str]] = Counter()
        for name, point in zip(tape.order, tape.points, strict=True):
            self._steps.append((name, point.name, seen[name, point.name]))
            seen[name, point.name] += 1

    def watch(self, recorded: Tape) -> None:
        """Look at what the search records on ``recorded``."""
        self._recorded = recorded

    def pick(self, runnable: Sequence["Standing"], current: Named | None) -> int:
        order, points = self._recorded.order, self._recorded.points
        for at in range(self._counted, len(order)):
            self._done[order[at], points[at].name] += 1
        self._counted = len(order)
        while self._steps:
            name, point, occurrence = self._steps.popleft()
            if self._done[name, point] > occurrence:
                continue
            for at, task in enumerate(runnable):
                if task.name == name and task.point.name == point:
                    return at
        return 0

    def draw(self, label: str, bound: int) -> int:
        return self._draw(label, bound)


class Standing(Named, Protocol):
    """A task, and the point that it stands at."""

    @property
    def point(self) -> Point: ...


def _count(value: object) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"a run length must be a whole number above 0, not {value!r}")
    return value
