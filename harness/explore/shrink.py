"""Shrinking: from a run that failed to the shortest story of the same failure.

Passes, cheapest first: simpler scenarios, tasks that need not act, draws back to 0, an earlier
end, runs of segments that need not be chosen, neighbours that can change places; and when none of
them helps, a few orders that have nothing to do with the tape, of the scenario and of simpler ones.

Invariant: what is accepted failed when it was run, with a verdict of the same class, and is
smaller; its tape is the one recorded in that run.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby, islice, takewhile
from typing import Any, NamedTuple

from harness.explore.estimate import Estimate
from harness.explore.outcome import Outcome, Runner, Scenario
from harness.explore.pickers import Chooser
from harness.explore.prng import derive
from harness.explore.strategies import Sticky, Uniform
from harness.explore.swarm import size_of
from harness.explore.tape import (
    Choice,
    Divergence,
    LenientReplay,
    PointReplay,
    StrictReplay,
    Tape,
)

REPLAYS = 2_000
CHECKS = 10
PASS_REPLAYS = 200
FRESH = 48  # orders drawn anew where nothing else helps
FRESH_SIMPLER = 2  # and of each simpler scenario
WALKS = (Sticky(0.9), Sticky(0.7), Uniform())

Run = tuple[str, int]  # a task, and how many segments it runs in a row


class Measure(NamedTuple):
    """How long a story is. Of two, the one with fewer tasks, switches and steps together is the
    shorter one; where those agree, the smaller tuple."""

    tasks: int
    switches: int
    steps: int
    faults: int
    size: float

    def shorter_than(self, other: "Measure") -> bool:
        return (self._length, *self) < (other._length, *other)

    @property
    def _length(self) -> int:
        return self.tasks + self.switches + self.steps

    def __str__(self) -> str:
        return f"{self.tasks} tasks, {self.steps} steps, {self.switches} switches"


class Neighbour(NamedTuple):
    """The nearest order that passes: step ``later`` before step ``earlier``, counted from 1.

    ``tape`` is the passing run's.
    """

    earlier: int
    later: int
    tape: Tape

    def __str__(self) -> str:
        return f"passes if step {self.later} runs before step {self.earlier}"


@dataclass(frozen=True, kw_only=True)
class Shrunk:
    """The smallest failure found. ``stable`` says that 10 strict replays gave the same digest."""

    scenario: Scenario
    outcome: Outcome
    before: Measure
    after: Measure
    replays: int
    stable: bool
    neighbour: Neighbour | None


def shrink(
    runner: Runner,
    scenario: Scenario,
    outcome: Outcome,
    *,
    smaller: Callable[[Scenario], Iterable[Scenario]] = lambda scenario: (),
    replay_limit: int = REPLAYS,
    go_on: Callable[[], bool] = lambda: True,
    look_on: Callable[[], bool] = lambda: True,
) -> Shrunk:
    """Shrink ``outcome``, a failure of ``scenario``, until nothing helps or the budget is spent.

    ``smaller`` yields simpler scenarios, such as ``Swarm.smaller``; ``go_on`` is asked before each
    replay, ``look_on`` before each order that might pass. The final check runs in any case.
    """
    assert outcome.verdict is not None, "only a failure can be shrunk"
    work = _Shrinking(runner, scenario, outcome, smaller, replay_limit, go_on)
    before = work.measure
    work.to_the_end()
    return Shrunk(
        scenario=work.scenario,
        outcome=work.outcome,
        before=before,
        after=work.measure,
        replays=work.replays,
        stable=replays_exactly(runner, work.scenario, work.outcome),
        neighbour=nearest_pass(runner, work.scenario, work.outcome, look_on=look_on),
    )


def measure(scenario: Scenario, outcome: Outcome) -> Measure:
    """How long a story this is."""
    tape = outcome.tape
    faults = sum(choice.value != 0 for choice in tape.draws)
    tasks = len(set(tape.order))
    return Measure(tasks, tape.switches, len(tape.order), faults, size_of(scenario))


def replays_exactly(
    runner: Runner, scenario: Scenario, outcome: Outcome, times: int = CHECKS
) -> bool:
    """Whether strict replays of the tape give the same digest and verdict, every time."""
    for _ in range(times):
        try:
            again = runner.run(scenario, StrictReplay(outcome.tape))
        except Divergence:
            return False
        if (again.digest, again.verdict) != (outcome.digest, outcome.verdict):
            return False
    return True


def nearest_pass(
    runner: Runner,
    scenario: Scenario,
    outcome: Outcome,
    limit: int = PASS_REPLAYS,
    look_on: Callable[[], bool] = lambda: True,
) -> Neighbour | None:
    """The two closest steps of different tasks such that the run passes with the later one first.

    What the later one's task does between the two moves along; what follows keeps to the tape as
    far as it can. None if no such two steps are found in ``limit`` replays, or while ``look_on``.
    """
    order = outcome.tape.order
    pairs = (
        (later - distance, later)
        for distance in range(1, len(order))
        for later in range(len(order) - 1, distance - 1, -1)
        if order[later - distance] != order[later]
    )
    for earlier, later in takewhile(lambda pair: look_on(), islice(pairs, limit)):
        between = order[earlier:later]
        moved = [name for name in [*between, order[later]] if name == order[later]]
        rest = [name for name in between if name != order[later]]
        changed = [*order[:earlier], *moved, *rest, *order[later + 1 :]]
        other = runner.run(scenario, LenientReplay(Tape(changed, outcome.tape.draws)))
        taken = other.tape.order[: later + 1] == changed[: later + 1]
        if taken and other.verdict is None and other.ended.reason == "finished":
            return Neighbour(earlier + 1, later + 1, other.tape)
    return None


class _Shrinking:
    """The best failure so far, and the passes that better it."""

    def __init__(
        self,
        runner: Runner,
        scenario: Scenario,
        outcome: Outcome,
        smaller: Callable[[Scenario], Iterable[Scenario]],
        replay_limit: int,
        go_on: Callable[[], bool],
    ) -> None:
        assert outcome.verdict is not None
        self.scenario, self.outcome = scenario, outcome
        self.measure = measure(scenario, outcome)
        self.replays = 0
        self._kind = outcome.verdict.kind
        self._runner, self._smaller = runner, smaller
        self._replay_limit, self._go_on = replay_limit, go_on
        self._tried: set[bytes] = set()

    def to_the_end(self) -> None:
        """Repeat all passes until none of them helps."""
        while not self._spent():
            start = self.measure
            self._scenarios()
            self._tasks()
            self._draws()
            self._truncate()
            self._chunks()
            self._shorten()
            self._swaps()
            if self.measure == start and not (self._other_orders() or self._other_scenarios()):
                return

    def _spent(self) -> bool:
        return self.replays >= self._replay_limit or not self._go_on()

    def _attempt(self, scenario: Scenario, order: list[str], draws: list[Choice]) -> bool:
        """Run a candidate and take it if it is the same failure in less."""
        return self._try(scenario, LenientReplay(Tape(order, draws)), [scenario, order, draws])

    def _try(self, scenario: Scenario, chooser: Chooser, candidate: list[Any]) -> bool:
        """``candidate`` is what the run depends on: none is run twice."""
        key = blake2b(json.dumps(candidate).encode(), digest_size=16).digest()
        if self._spent() or key in self._tried:
            return False
        self._tried.add(key)
        self.replays += 1
        outcome = self._runner.run(scenario, chooser)
        if outcome.verdict is None or outcome.verdict.kind != self._kind:
            return False
        found = measure(scenario, outcome)
        if not found.shorter_than(self.measure):
            return False
        self.scenario, self.outcome, self.measure = scenario, outcome, found
        return True

    def _order(self, order: list[str]) -> bool:
        return self._attempt(self.scenario, order, self.outcome.tape.draws)

    def _runs(self) -> list[Run]:
        return [(name, len(list(run))) for name, run in groupby(self.outcome.tape.order)]

    def _scenarios(self) -> None:
        """Simpler scenarios under the same tape, or, if that fails, in their natural order; from
        the first to the last until none helps."""
        start = None
        while start != self.measure and not self._spent():
            start, at = self.measure, 0
            while (
                simpler := next(islice(self._smaller(self.scenario), at, None), None)
            ) is not None:
                tape = self.outcome.tape
                aligned = [simpler, tape.order, tape.draws, "by point"]
                helps = self._try(simpler, PointReplay(tape), aligned)
                if not helps and not self._attempt(simpler, [], []):
                    at += 1

    def _tasks(self) -> None:
        """Each task in turn is not mentioned; it may then not act before the failure."""
        for name in sorted(set(self.outcome.tape.order)):
            self._order([other for other in self.outcome.tape.order if other != name])

    def _draws(self) -> None:
        """Chunks of draws back to 0, large ones first."""
        size = len(self.outcome.tape.draws)
        while size:
            at = 0
            while at < len(draws := self.outcome.tape.draws):
                part = [Choice(label, 0, bound) for label, _, bound in draws[at : at + size]]
                changed = draws[:at] + part + draws[at + size :]
                if changed != draws:
                    self._attempt(self.scenario, self.outcome.tape.order, changed)
                at += size
            size //= 2

    def _truncate(self) -> None:
        """Only the beginning of the tape; the rest in its natural order."""
        length = len(self.outcome.tape.order)
        for part in range(8):
            if self._order(self.outcome.tape.order[: length * part // 8]):
                return

    def _chunks(self) -> None:
        """Runs of segments are not chosen, long chunks first."""
        size = len(self._runs()) // 2
        while size:
            at = 0
            while at < len(runs := self._runs()):
                if not self._order(_flat(runs[:at] + runs[at + size :])):
                    at += size
            size //= 2

    def _shorten(self) -> None:
        """Runs of segments are cut to half, then by one."""
        at = 0
        while at < len(runs := self._runs()):
            name, count = runs[at]
            shorter = (
                [*runs[:at], (name, left), *runs[at + 1 :]] for left in (count // 2, count - 1)
            )
            if count == 1 or not any(self._order(_flat(candidate)) for candidate in shorter):
                at += 1

    def _swaps(self) -> None:
        """A run changes places with the next, which brings segments of one task together."""
        at = 0
        while at + 1 < len(runs := self._runs()):
            swapped = [*runs[:at], runs[at + 1], runs[at], *runs[at + 2 :]]
            if self._order(_flat(swapped)):
                at = max(0, at - 1)
            else:
                at += 1
        self._single_steps()

    def _other_orders(self) -> bool:
        """The same scenario in orders of its own, most of them with few switches."""
        for number in range(FRESH):
            walk = WALKS[number % len(WALKS)]
            walk.begin(derive(self.replays, number), Estimate())
            if self._try(self.scenario, walk, [self.scenario, self.replays, number]):
                return True
        return False

    def _other_scenarios(self) -> bool:
        """Simpler scenarios in orders of their own: the tape may say nothing about them."""
        for number in range(FRESH_SIMPLER):
            for at, simpler in enumerate(self._smaller(self.scenario)):
                walk = WALKS[(at + number) % len(WALKS)]
                walk.begin(derive(self.replays, number), Estimate())
                if self._try(simpler, walk, [simpler, self.replays, number]):
                    return True
        return False

    def _single_steps(self) -> None:
        """One segment moves to the run of its task before or after."""
        at = 0
        while at + 2 < len(runs := self._runs()):
            (first, m), (middle, n), (last, k) = runs[at : at + 3]
            later = [(first, m - 1), (middle, n), (first, 1), (last, k)]
            sooner = [(first, m), (last, 1), (middle, n), (last, k - 1)]
            for changed in (later, sooner):
                self._order(_flat([*runs[:at], *changed, *runs[at + 3 :]]))
            at += 1


def _flat(runs: Iterable[Run]) -> list[str]:
    return [name for name, count in runs for _ in range(count)]
