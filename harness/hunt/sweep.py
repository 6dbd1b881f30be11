"""Sweeps: a base schedule, and one trouble at a time at every place where it could strike.

    aborts   the client of each request goes away before each step of the schedule
    copies   each copy of the schedule fails
    rooms    each making of room is refused, on the device and on the host; of several ranks, too,
             by each pool of each rank alone
    replies  each reply of storage is late, failing, full, torn, or a lie, where there is storage

Invariant: "complete" is said only if trouble struck at every place of every base schedule, each in
a run of its own that is otherwise that schedule.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.explore.campaign import Finding, default_portfolio
from harness.explore.estimate import Estimate
from harness.explore.kernel import Task
from harness.explore.outcome import Outcome, Runner, Scenario
from harness.explore.pickers import Chooser
from harness.explore.prng import derive
from harness.explore.tape import Choice, LenientReplay, Tape
from harness.hunt.refusals import APART

KINDS = ("aborts", "copies", "rooms", "replies")
TROUBLE = {  # draws
    "copies": ("copy.fail",),
    "rooms": ("room.refuse", "backup.refuse", *APART.values()),
    "replies": ("storage.trouble",),
}
SWITCHES = {"copies": "copies_fail", "rooms": "rooms_fail"}


class Base(NamedTuple):
    """A schedule to disturb: a world, and its natural order of events (0) or, from 1 on, one drawn
    from `seed`."""

    scenario: Scenario
    order: int
    seed: int


class Place(NamedTuple):
    """Where trouble strikes: this world under this tape."""

    scenario: Scenario
    tape: Tape


@dataclass(kw_only=True)
class Swept:
    """What a sweep did; plain data, mergeable over processes.

    `points` counts the places tried by kind of trouble, `hits` the runs in each class of verdicts,
    `findings` has the first of each class. `stopped_at` is empty when every place was tried."""

    stopped_at: str = ""
    bases: int = 0
    elapsed_s: float = 0.0
    points: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return not self.stopped_at

    def merge(self, other: "Swept") -> None:
        """Add what another process swept."""
        self.stopped_at = self.stopped_at or other.stopped_at
        self.bases += other.bases
        self.elapsed_s = max(self.elapsed_s, other.elapsed_s)
        self.points.update(other.points)
        self.hits.update(other.hits)
        for kind, finding in other.findings.items():
            self.findings.setdefault(kind, finding)

    def __str__(self) -> str:
        head = "complete" if self.complete else f"stopped at {self.stopped_at}"
        parts = ", ".join(f"{count:,} {kind}" for kind, count in self.points.items())
        return (
            f"{head}: {self.points.total():,} points swept ({parts or 'none'}) of {self.bases:,}"
            f" base schedules, {len(self.findings)} kinds of violations"
        )


def sweep(
    runner: Runner,
    bases: Iterable[Base],
    kinds: Sequence[str] = KINDS,
    *,
    elapsed: Callable[[], float] = lambda: 0.0,
    enough: Callable[[Swept], str] = lambda swept: "",
) -> Swept:
    """Sweep every base schedule by every kind of trouble, until `enough` says why to stop; it is
    asked before each point.

    A base that fails undisturbed is a finding, and has nothing to sweep."""
    swept = Swept()
    for base in bases:
        swept.bases += 1
        for kind in kinds:
            calm = undisturbed(runner, base, kind)
            _note(swept, base, "undisturbed", calm, elapsed())
            for place in places(calm, kind):
                if reason := enough(swept):
                    swept.stopped_at, swept.elapsed_s = reason, elapsed()
                    return swept
                outcome = runner.run(place.scenario, LenientReplay(place.tape))
                swept.points[kind] += 1
                _note(swept, base, kind, Calm(place.scenario, outcome), elapsed())
    swept.elapsed_s = elapsed()
    return swept


class Calm(NamedTuple):
    """A world and how a run of it went."""

    scenario: Scenario
    outcome: Outcome


def undisturbed(runner: Runner, base: Base, kind: str) -> Calm:
    """The base schedule, in a world where trouble of `kind` could strike and does not."""
    requests = [{**request, "abort": False} for request in base.scenario["requests"]]
    switches = {switch: SWITCHES.get(kind) == switch for switch in SWITCHES.values()}
    trouble = "any" if kind == "replies" else "none"
    storage = [{**store, "trouble": trouble} for store in base.scenario["storage"]]
    ranks = [{**rank, "shut": False} for rank in base.scenario["ranks"]]  # rooms say it
    world = {"requests": requests, "storage": storage, "ranks": ranks}
    scenario = {**base.scenario, **world, **switches}
    return Calm(scenario, runner.run(scenario, _Quiet(base)))


def places(calm: Calm, kind: str) -> Iterator[Place]:
    """Every place of the schedule at which trouble of `kind` could strike; none if it failed."""
    if calm.outcome.verdict is not None:
        return
    if kind == "aborts":
        yield from _departures(calm.scenario, calm.outcome.tape)
        return
    order, draws = calm.outcome.tape.order, calm.outcome.tape.draws
    for at, (label, _, bound) in enumerate(draws):
        if label in TROUBLE[kind]:
            for value in range(1, bound):
                troubled = [*draws[:at], Choice(label, value, bound), *draws[at + 1 :]]
                yield Place(calm.scenario, Tape(order, troubled))


def _departures(scenario: Scenario, tape: Tape) -> Iterator[Place]:
    """From the end of the set-up to the last step of the request whose client goes away."""
    order = tape.order
    begin = next((at for at, task in enumerate(order) if task != "setup"), len(order))
    for leaver in scenario["requests"]:
        number = leaver["id"]
        requests = [{**r, "abort": r is leaver} for r in scenario["requests"]]
        ends = [at for at, task in enumerate(order) if task == f"R{number}"]
        for at in range(begin, ends[-1] + 1 if ends else begin):
            changed = [*order[:at], f"A{number}", *order[at:]]
            yield Place({**scenario, "requests": requests}, Tape(changed, tape.draws))


class _Quiet:
    """The order of a base, and no trouble of its own accord."""

    def __init__(self, base: Base) -> None:
        self._chooser: Chooser = LenientReplay(Tape())
        if base.order:
            strategy = default_portfolio()
            strategy.begin(derive(base.seed, "base", base.order), Estimate())
            self._chooser = strategy.member()

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        return self._chooser.pick(runnable, current)

    def draw(self, label: str, bound: int) -> int:
        trouble = any(label in labels for labels in TROUBLE.values())
        return 0 if trouble else self._chooser.draw(label, bound)


def _note(swept: Swept, base: Base, kind: str, run: Calm, elapsed_s: float) -> None:
    verdict = run.outcome.verdict
    if verdict is not None:
        swept.hits[verdict.kind] += 1
        if verdict.kind not in swept.findings:
            number = swept.points.total()
            swept.findings[verdict.kind] = Finding(
                run.scenario, run.outcome, f"sweep ({kind})", base.seed, number, elapsed_s
            )
