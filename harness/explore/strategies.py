"""The strategies: each decides which runnable task goes next, from its seed and nothing else.

None finds every kind of rare order best, so the default is a portfolio of them.

Invariant: the same seed, estimate and scenario give the same run.
"""

from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Sequence
from math import expm1, log1p

from harness.explore.estimate import Estimate, family
from harness.explore.kernel import Task
from harness.explore.outcome import Scenario
from harness.explore.prng import SplitMix, derive


class Strategy(ABC):
    """One way of choosing. ``begin`` is called before each run; ``pick`` where two can go.

    Draws are made in two levels, the same for every strategy: in a given run a label is active
    with a chance of 1/4, and an active label leaves 0 with a chance of 1/4 each time. So most runs
    see few kinds of trouble, and those they see repeatedly.

    ``scenario`` is None, or the scenario that the run begun must be of.
    """

    name = "strategy"
    scenario: Scenario | None = None

    def __init__(self) -> None:
        self.rng = SplitMix(0)
        self._active: dict[str, bool] = {}

    def begin(self, seed: int, estimate: Estimate) -> None:
        """Forget the last run; ``seed`` decides everything in the next."""
        self.rng = SplitMix(seed)
        self._active = {}

    @abstractmethod
    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        """An index into ``runnable``; see ``pickers.Chooser``."""

    def member(self) -> "Strategy":
        """Who decides in the run begun: this strategy, or the one that it chose."""
        return self

    def draw(self, label: str, bound: int) -> int:
        """A value of 0..bound-1, mostly 0."""
        active = self._active.get(label)
        if active is None:
            active = self._active[label] = self.rng.below(4) == 0
        if not active or self.rng.below(4):
            return 0
        return 1 + self.rng.below(bound - 1)


class Uniform(Strategy):
    """Every runnable task with the same chance."""

    name = "uniform"

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        return self.rng.below(len(runnable))


class Sticky(Strategy):
    """Lets the current task go on with the chance ``stay``: close to what real schedulers do."""

    name = "sticky"

    def __init__(self, stay: float = 0.7) -> None:
        super().__init__()
        assert 0 <= stay < 1, stay
        self._stay = stay

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        if current is None:
            return self.rng.below(len(runnable))
        if self.rng.unit() < self._stay:
            return 0
        return 1 + self.rng.below(len(runnable) - 1)


class Urw(Strategy):
    """A random walk weighted by the steps each task has left: near uniform over interleavings."""

    name = "urw"

    def __init__(self) -> None:
        super().__init__()
        self._steps: dict[str, float] = {}
        self._expected: dict[int, float] = {}

    def begin(self, seed: int, estimate: Estimate) -> None:
        super().begin(seed, estimate)
        self._steps = dict(estimate.steps)
        self._expected = {}

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        expected, sums, total = self._expected, list[float](), 0.0
        for task in runnable:
            number = task.number
            if number not in expected:
                expected[number] = self._steps.get(family(task.name), 8.0)
            left = expected[number] - task.steps
            total += left if left > 1.0 else 1.0
            sums.append(total)
        return bisect(sums, self.rng.unit() * total)


class Paces(Strategy):
    """A random walk in which every task has a pace of its own for the whole run: mostly the full
    one, else 1/8 or 1/64 of it. So a stream, a store or a client is slow, and the rest goes on
    around it; a walk without paces lets nobody lag for long."""

    name = "paces"

    def __init__(self, paces: Sequence[float] = (1.0, 1.0, 1 / 8, 1 / 64)) -> None:
        super().__init__()
        assert all(pace > 0 for pace in paces), paces
        self._paces = paces
        self._pace: dict[int, float] = {}

    def begin(self, seed: int, estimate: Estimate) -> None:
        super().begin(seed, estimate)
        self._pace = {}

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        sums, total = list[float](), 0.0
        for task in runnable:
            pace = self._pace.get(task.number)
            if pace is None:
                pace = self._pace[task.number] = self.rng.choice(self._paces)
            total += pace
            sums.append(total)
        return bisect(sums, self.rng.unit() * total)


class Pos(Strategy):
    """Partial order sampling: events have random priorities, and lose them when one they race
    with is run first. Samples orders of conflicting steps rather than interleavings."""

    name = "pos"

    def __init__(self) -> None:
        super().__init__()
        self._priority: dict[int, tuple[int, int]] = {}

    def begin(self, seed: int, estimate: Estimate) -> None:
        super().begin(seed, estimate)
        self._priority = {}

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        best, best_at = -1, 0
        for at, task in enumerate(runnable):
            steps, priority = self._priority.get(task.number, (-1, 0))
            if steps != task.steps:
                priority = self.rng.bits()
                self._priority[task.number] = (task.steps, priority)
            if priority > best:
                best, best_at = priority, at
        chosen = runnable[best_at]
        obj, write = chosen.point.obj, chosen.point.write
        if obj is not None:
            for task in runnable:
                if task.point.obj == obj and (write or task.point.write):
                    self._priority.pop(task.number, None)
        return best_at


class Pct(Strategy):
    """Probabilistic concurrency testing: fixed random priorities, lowered at ``depth`` - 1 random
    choices. Finds any order of ``depth`` constraints with at least the chance of ``bound``.

    A task that keeps its turn for a whole expected run, such as one that polls, goes last; without
    that a run would not end.
    """

    name = "pct"

    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        assert depth >= 1, depth
        self.depth = depth
        self._priority: dict[int, float] = {}
        self._changes: list[int] = []
        self._choice = 0
        self._lowest = 0.0
        self._patience = 0
        self._streak = (-1, 0)

    def begin(self, seed: int, estimate: Estimate) -> None:
        super().begin(seed, estimate)
        self._priority = {}
        self._changes = self.rng.sample(max(int(estimate.choices), self.depth), self.depth - 1)
        self._choice = 0
        self._lowest = 0.0
        self._patience = 2 * int(estimate.choices)
        self._streak = (-1, 0)

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        at = self._highest(runnable)
        if self._changes and self._choice >= self._changes[0]:
            self._changes.pop(0)
            self._demote(runnable[at])
            at = self._highest(runnable)
        self._choice += 1
        number = runnable[at].number
        streak = self._streak[1] + 1 if self._streak[0] == number else 1
        if streak > self._patience:
            self._demote(runnable[at])
            streak = 0
        self._streak = (number, streak)
        return at

    def _highest(self, runnable: Sequence[Task]) -> int:
        best, best_at = -1e300, 0
        for at, task in enumerate(runnable):
            priority = self._priority.get(task.number)
            if priority is None:
                priority = self._priority[task.number] = self.rng.unit()
            if priority > best:
                best, best_at = priority, at
        return best_at

    def _demote(self, task: Task) -> None:
        self._lowest -= 1.0
        self._priority[task.number] = self._lowest


class PctRange(Strategy):
    """PCT of a depth drawn for each run."""

    name = "pct"

    def __init__(self, low: int = 2, high: int = 6) -> None:
        super().__init__()
        self._depths = [Pct(depth) for depth in range(low, high + 1)]
        self._pct = self._depths[0]

    def begin(self, seed: int, estimate: Estimate) -> None:
        super().begin(seed, estimate)
        self._pct = self.rng.choice(self._depths)
        self._pct.begin(derive(seed, "pct"), estimate)

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        return self._pct.pick(runnable, current)


def pct_bound(*, depth: int, tasks: int, choices: int, runs: int) -> float:
    """The least chance that ``runs`` runs of PCT find a bug of ``depth`` ordering constraints.

    1 - (1 - 1/(n k^(d-1)))^runs, with n tasks and k choices.
    """
    once = 1.0 / (tasks * choices ** (depth - 1))
    return 1.0 if once >= 1.0 else -expm1(runs * log1p(-once))


class Portfolio(Strategy):
    """Draws one of several strategies for each run, by its share; ``name`` is the one drawn."""

    name = "portfolio"

    def __init__(self, shares: Sequence[tuple[float, Strategy]]) -> None:
        super().__init__()
        assert shares, "a portfolio needs a strategy"
        self._weights = [share for share, _ in shares]
        self.members = [strategy for _, strategy in shares]
        self.chosen = self.members[0]

    def begin(self, seed: int, estimate: Estimate) -> None:
        super().begin(seed, estimate)
        self.chosen = self.members[self.rng.weighted(self._weights)]
        self.chosen.begin(derive(seed, "member"), estimate)
        self.name, self.scenario = self.chosen.name, self.chosen.scenario

    def member(self) -> Strategy:
        return self.chosen

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        return self.chosen.pick(runnable, current)

    def draw(self, label: str, bound: int) -> int:
        return self.chosen.draw(label, bound)
