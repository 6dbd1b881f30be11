"""What the runs reached: points, orders of conflicting steps, sometimes-marks, and what is unseen.

A clean run counts only if it was not an empty one, so a verdict has three values.

Invariant: merging marks is commutative and associative; counts are numbers of schedules, except
for points and sometimes-marks, which are numbers of hits.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from harness.explore.kernel import Point

LOOK_BACK = 16  # accesses of one object that a triple may span

Pair = tuple[str, str]
Triple = tuple[str, str, str]
Access = tuple[str, str, bool]  # task, point, whether it writes


class RunMarks(NamedTuple):
    """The marks of one run, each tuple without repeats and in order of first appearance.

    ``pairs`` (a, b): different tasks, next to each other on one object, one of them writing.
    ``triples`` (a1, b, a2): a1 and a2 are one task's consecutive steps on an object, b another's
    step on it between the two, in conflict with one of them.
    ``spans`` (kind, a1, a2) and ``touches`` (kind, name, write) are what triples are made of.
    ``transitions`` are the names of those that the world went through.
    """

    points: dict[str, int]
    sometimes: dict[str, int]
    pairs: tuple[Pair, ...]
    triples: tuple[Triple, ...]
    spans: tuple[tuple[str, str, str], ...]
    touches: tuple[tuple[str, str, bool], ...]
    transitions: tuple[str, ...] = ()


def run_marks(
    order: Sequence[str],
    points: Sequence[Point],
    sometimes: Mapping[str, int] | None = None,
    transitions: tuple[str, ...] = (),
) -> RunMarks:
    """The marks of a run that took the steps ``order[i]`` at ``points[i]``."""
    by_object: dict[object, list[Access]] = {}
    for task, (name, obj, write) in zip(order, points, strict=True):
        if obj is not None:
            if obj not in by_object:
                by_object[obj] = []
            by_object[obj].append((task, name, write))
    pairs: dict[Pair, None] = {}
    triples: dict[Triple, None] = {}
    spans: dict[tuple[str, str, str], None] = {}
    touches: dict[tuple[str, str, bool], None] = {}
    for obj, accesses in by_object.items():
        kind = kind_of(obj)
        touches.update(dict.fromkeys([(kind, name, write) for _, name, write in accesses]))
        _walk(kind, accesses, pairs, triples, spans)
    return RunMarks(
        points=dict(Counter([point[0] for point in points])),
        sometimes=dict(sometimes or {}),
        pairs=tuple(pairs),
        triples=tuple(triples),
        spans=tuple(spans),
        touches=tuple(touches),
        transitions=transitions,
    )


def kind_of(obj: object) -> str:
    """The kind of a point's object: ``("node", 9)`` is a "node"."""
    return str(obj[0]) if isinstance(obj, tuple) and obj else str(obj)


def _walk(
    kind: str,
    accesses: list[Access],
    pairs: dict[Pair, None],
    triples: dict[Triple, None],
    spans: dict[tuple[str, str, str], None],
) -> None:
    """Classify the accesses of one object, in order."""
    last: dict[str, int] = {}
    before_task, before_name, before_write = "", "", False
    for at, (task, name, write) in enumerate(accesses):
        if before_task != task and (write or before_write):
            pairs[before_name, name] = None
        if task in last:
            start = last[task]
            _, first, first_write = accesses[start]
            spans[kind, first, name] = None
            for _, middle, middle_write in accesses[max(start + 1, at - LOOK_BACK) : at]:
                if middle_write or write or first_write:
                    triples[first, middle, name] = None
        last[task] = at
        before_task, before_name, before_write = task, name, write
    pairs.pop(("", accesses[0][1]), None)


@dataclass(kw_only=True)
class Marks:
    """The marks of many schedules; plain data, mergeable over processes."""

    schedules: int = 0
    points: Counter[str] = field(default_factory=Counter)
    sometimes: Counter[str] = field(default_factory=Counter)
    pairs: Counter[Pair] = field(default_factory=Counter)
    triples: Counter[Triple] = field(default_factory=Counter)
    spans: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    touches: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    transitions: Counter[str] = field(default_factory=Counter)

    def add(self, run: RunMarks) -> int:
        """Count one schedule; returns how many orders, marks, transitions it was the first of."""
        fresh = sum(pair not in self.pairs for pair in run.pairs)
        fresh += sum(triple not in self.triples for triple in run.triples)
        fresh += sum(mark not in self.sometimes for mark in run.sometimes)
        fresh += sum(move not in self.transitions for move in run.transitions)
        self.schedules += 1
        self.points.update(run.points)
        self.sometimes.update(run.sometimes)
        self.pairs.update(run.pairs)
        self.triples.update(run.triples)
        self.spans.update(run.spans)
        self.touches.update(run.touches)
        self.transitions.update(run.transitions)
        return fresh

    def merge(self, other: "Marks") -> None:
        """Add what another campaign saw."""
        self.schedules += other.schedules
        self.points.update(other.points)
        self.sometimes.update(other.sometimes)
        self.pairs.update(other.pairs)
        self.triples.update(other.triples)
        self.spans.update(other.spans)
        self.touches.update(other.touches)
        self.transitions.update(other.transitions)

    def unseen_mass(self) -> float:
        """Good-Turing: the chance that the next schedule shows an order not seen so far.

        The number of pairs and triples seen in exactly one schedule, over the schedules; 1 before
        the first schedule.
        """
        if self.schedules == 0:
            return 1.0
        once = sum(count == 1 for count in self.pairs.values())
        once += sum(count == 1 for count in self.triples.values())
        return min(1.0, once / self.schedules)

    def failure_bound(self) -> float:
        """When no schedule failed: at 95 %, less than this share of schedules does (3/N)."""
        return min(1.0, 3.0 / self.schedules) if self.schedules else 1.0

    def unseen_pairs(self) -> Iterator[Pair]:
        """Pairs that could exist, judged by what tasks do to an object of one kind, and that no
        schedule has shown; in order of first appearance of their parts."""
        for names in self._writers().values():
            for first, first_write in names.items():
                for second, write in names.items():
                    if (first_write or write) and (first, second) not in self.pairs:
                        yield first, second

    def unseen_triples(self) -> Iterator[Triple]:
        """Triples that could exist, judged by what one task does to an object and others do to it,
        and that no schedule has shown; in order of first appearance of their parts."""
        by_kind = self._writers()
        for kind, first, second in self.spans:
            names = by_kind[kind]
            own = names[first] or names[second]
            for middle, write in names.items():
                triple = (first, middle, second)
                if (own or write) and triple not in self.triples:
                    yield triple

    def _writers(self) -> dict[str, dict[str, bool]]:
        """By kind of object, the points seen at one, and whether they write."""
        by_kind: dict[str, dict[str, bool]] = {}
        for kind, name, write in self.touches:
            names = by_kind.setdefault(kind, {})
            names[name] = names.get(name, False) or write
        return by_kind


class Missing(NamedTuple):
    """A mark or rate that a profile requires and the run did not reach."""

    name: str
    found: float
    required: float


EXIT_CODES = {"pass": 0, "violation": 3, "inconclusive": 5}


class Certificate(NamedTuple):
    """The three-valued verdict over many schedules, with its evidence."""

    verdict: Literal["pass", "violation", "inconclusive"]
    missing: tuple[Missing, ...]
    schedules: int
    unseen_mass: float
    failure_bound: float

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]


def certify(
    marks: Marks,
    *,
    violations: int,
    required: Mapping[str, float],
    measured: Mapping[str, float] | None = None,
) -> Certificate:
    """Judge a campaign: a violation if there was one, else a pass only with all that is required.

    ``required`` maps sometimes-marks, points and names in ``measured`` (such as rates) to the least
    that must be there. A campaign without a schedule is inconclusive.
    """
    found = {**marks.points, **marks.sometimes, **(measured or {})}
    missing = tuple(
        Missing(name, found.get(name, 0), least)
        for name, least in required.items()
        if found.get(name, 0) < least
    )
    verdict: Literal["pass", "violation", "inconclusive"] = "pass"
    if violations:
        verdict = "violation"
    elif missing or marks.schedules == 0:
        verdict = "inconclusive"
    return Certificate(
        verdict, missing, marks.schedules, marks.unseen_mass(), marks.failure_bound()
    )
