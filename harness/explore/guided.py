"""Strategies that learn from earlier runs: mutation of interesting tapes, and a directed one.

Invariant: what they learn is part of their state, so a run of theirs is repeated from its tape,
not from its seed.
"""

from collections import Counter
from collections.abc import Sequence

from harness.explore.estimate import Estimate
from harness.explore.kernel import Task
from harness.explore.marks import Triple
from harness.explore.outcome import Scenario
from harness.explore.prng import SplitMix
from harness.explore.strategies import Strategy
from harness.explore.tape import Choice, LenientReplay, Tape

CORPUS = 64
PATIENCE = 64


class TapeMutation(Strategy):
    """Follows a tape that showed something new, changed in a few places, then walks at random.

    A change moves one segment to another place, cuts the tape off, or changes a draw. Tapes that
    showed more, and were used less, are taken more often.
    """

    name = "mutation"

    def __init__(self) -> None:
        super().__init__()
        self._corpus: list[tuple[int, Scenario, Tape]] = []
        self._used: Counter[int] = Counter()
        self._follow = LenientReplay(Tape())
        self._left = 0

    def learn(self, scenario: Scenario, tape: Tape, fresh: int) -> None:
        """Keep the tape of a run that was the first to show ``fresh`` classes of orders."""
        if fresh <= 0 or not tape.order:
            return
        self._corpus.append((fresh, scenario, Tape(tape.order, tape.draws)))
        if len(self._corpus) > CORPUS:
            del self._corpus[0]
            self._used = Counter({at - 1: n for at, n in self._used.items() if at})

    def begin(self, seed: int, estimate: Estimate) -> None:
        super().begin(seed, estimate)
        self._left, self.scenario = 0, None
        if self._corpus:
            at = self.rng.weighted(
                [entry[0] / (1 + self._used[at]) for at, entry in enumerate(self._corpus)]
            )
            self._used[at] += 1
            _, self.scenario, tape = self._corpus[at]
            tape = mutated(tape, self.rng)
            self._follow = LenientReplay(tape)
            self._left = len(tape.order)

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        self._left -= 1
        if self._left >= 0:
            return self._follow.pick(runnable, current)
        return self.rng.below(len(runnable))

    def draw(self, label: str, bound: int) -> int:
        if self._left > 0:
            return self._follow.draw(label, bound)
        return super().draw(label, bound)


def mutated(tape: Tape, rng: SplitMix) -> Tape:
    """A copy of ``tape``, not empty, with one to three changes."""
    order, draws = list(tape.order), list(tape.draws)
    for _ in range(1 + rng.below(3)):
        kind = rng.below(8)
        if kind < 5:
            name = order.pop(rng.below(len(order)))
            order.insert(rng.below(len(order) + 1), name)
        elif kind < 7 or not draws:
            del order[1 + rng.below(len(order)) :]
        else:
            at = rng.below(len(draws))
            label, _, bound = draws[at]
            draws[at] = Choice(label, rng.below(bound), bound)
    return Tape(order, draws)


class Directed(Strategy):
    """Heads for one order (a1, b, a2): holds the task that has just done a1, until another has
    done b to the same object, then lets it do a2. The rest is a uniform walk.

    Each run heads for one of ``aims``; without any this is a uniform walk. A task is held for at
    most ``PATIENCE`` choices, and never when it alone could go on.
    """

    name = "directed"

    def __init__(self, aims: Sequence[Triple] = ()) -> None:
        super().__init__()
        self.aims = aims
        self.aim: Triple | None = None
        self._held: Task | None = None
        self._object: object = None
        self._passed = False
        self._patience = 0

    def begin(self, seed: int, estimate: Estimate) -> None:
        super().begin(seed, estimate)
        self._held = None
        self._passed = False
        self.aim = self.rng.choice(self.aims) if self.aims else None

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        at = self._choose(runnable)
        if self.aim is not None:
            self._note(runnable[at])
        return at

    def _choose(self, runnable: Sequence[Task]) -> int:
        held = self._held
        if held is None or self.aim is None:
            return self.rng.below(len(runnable))
        if self._passed:
            for at, task in enumerate(runnable):
                if task is held:
                    return at
            return self.rng.below(len(runnable))
        free = [at for at, task in enumerate(runnable) if task is not held]
        wanted = [at for at in free if self._is(runnable[at], self.aim[1])]
        return self.rng.choice(wanted or free)

    def _note(self, task: Task) -> None:
        """Follow what the chosen step does to the plan."""
        assert self.aim is not None
        first, middle, last = self.aim
        if self._held is None:
            if task.point.name == first:
                self._held, self._object = task, task.point.obj
                self._passed, self._patience = False, PATIENCE
            return
        self._patience -= 1
        if task is not self._held and self._is(task, middle):
            self._passed = True
        done = self._passed and task is self._held and self._is(task, last)
        if done or self._patience <= 0:
            self._held = None

    def _is(self, task: Task, name: str) -> bool:
        return task.point.name == name and task.point.obj == self._object
