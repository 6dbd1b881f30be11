"""Strategies that learn from earlier runs: mutation of interesting tapes, and a directed one.

Invariant: what they learn is part of their state, so a run of theirs is repeated from its tape,
not from its seed.
"""

from collections import Counter
from collections.abc import Sequence

from harness.explore.estimate import Estimate
from harness.explore.kernel import Task
from harness.explore.marks import Pair, Triple
from harness.explore.outcome import Scenario
from harness.explore.prng import SplitMix
from harness.explore.strategies import Strategy
from harness.explore.tape import Choice, LenientReplay, Tape

CORPUS = 64
PATIENCE = 64

Order = Pair | Triple


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
    """Heads for one order of steps of different tasks on one object. The rest is a uniform walk.

    (a, b): holds a task that is about to do b, until another has just done a, then lets it go.
    (a1, b, a2): holds the task that has just done a1, until another has done b to the same object,
    then lets it do a2.

    Each run heads for one of ``aims``; without any this is a uniform walk. ``given`` aims are not
    replaced. A task is held for at most ``PATIENCE`` choices, never when it alone could go on.
    """

    name = "directed"

    def __init__(self, aims: Sequence[Order] = (), *, given: bool = False) -> None:
        super().__init__()
        self.aims = aims
        self.given = given
        self.aim: Order | None = None
        self._held: Task | None = None
        self._object: object = None
        self._passed = False
        self._patience = 0

    def begin(self, seed: int, estimate: Estimate) -> None:
        super().begin(seed, estimate)
        self._held = None
        self._passed = False
        self._patience = PATIENCE
        self.aim = self.rng.choice(self.aims) if self.aims else None

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        aim = self.aim
        if aim is None:
            return self.rng.below(len(runnable))
        if len(aim) == 2:
            return self._meet(runnable, aim)
        held = self._held
        if held is not None and held in runnable and self._strayed(held, aim):
            self._held = None
        at = self._choose(runnable, aim)
        self._note(runnable[at], aim)
        return at

    def _meet(self, runnable: Sequence[Task], aim: Pair) -> int:
        """``_held`` is here the task that did the first step, if that was the last one chosen."""
        firsts, seconds = (self._standing(runnable, name) for name in aim)
        if self._held is not None:
            for at in seconds:
                if runnable[at] is not self._held and runnable[at].point.obj == self._object:
                    self._held, self._patience = None, 0  # met: the rest is a walk
                    return at
        at = self._together(runnable, firsts, seconds)
        if at < 0:
            at = self._others(runnable, [*firsts[:1], *seconds[:1]])
        chosen = runnable[at]
        self._held = chosen if chosen.point.name == aim[0] else None
        self._object = chosen.point.obj
        return at

    def _together(self, runnable: Sequence[Task], firsts: list[int], seconds: list[int]) -> int:
        """One that is about to do the first step while another is about to do the second."""
        for at in firsts:
            for other in seconds:
                if at != other and runnable[at].point.obj == runnable[other].point.obj:
                    return at
        return -1

    def _choose(self, runnable: Sequence[Task], aim: Triple) -> int:
        held, first, middle = self._held, aim[0], aim[1]
        if held is None:
            waiting = self._standing(runnable, middle)[:1]
            starts = [at for at in self._standing(runnable, first) if at not in waiting]
            if waiting and starts and self._patience > 0:
                return self.rng.choice(starts)
            return self._others(runnable, waiting)
        there = [at for at, task in enumerate(runnable) if task is held]
        if self._passed:
            return there[0] if there else self.rng.below(len(runnable))
        free = [at for at in range(len(runnable)) if at not in there]
        wanted = [at for at in free if self._is(runnable[at], middle)]
        return self.rng.choice(wanted or free)

    def _note(self, task: Task, aim: Triple) -> None:
        """Follow what the chosen step does to the plan."""
        first, middle, last = aim
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

    def _strayed(self, held: Task, aim: Triple) -> bool:
        """Its next step on the object is another one, so this cannot become the order."""
        return held.point.obj == self._object and held.point.name != aim[2]

    def _others(self, runnable: Sequence[Task], kept: list[int]) -> int:
        """Anybody but those at ``kept``, as long as patience lasts and there is somebody."""
        free = [at for at in range(len(runnable)) if at not in kept]
        if kept and free and self._patience > 0:
            self._patience -= 1
            return self.rng.choice(free)
        return self.rng.below(len(runnable))

    def _standing(self, runnable: Sequence[Task], name: str) -> list[int]:
        return [at for at, task in enumerate(runnable) if task.point.name == name]

    def _is(self, task: Task, name: str) -> bool:
        return task.point.name == name and task.point.obj == self._object
