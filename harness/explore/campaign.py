"""A campaign: schedule after schedule within a budget, each with a scenario and a seed of its own.

Part of all schedules is run a second time from its tape; a difference is a finding against the
harness itself.

Invariant: schedule ``i`` of a seed depends on the schedules before it, not on time or budget.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, Protocol

from harness.explore.estimate import Estimator
from harness.explore.guided import Directed, TapeMutation
from harness.explore.marks import Marks
from harness.explore.outcome import Outcome, Runner, Scenario
from harness.explore.prng import derive
from harness.explore.strategies import (
    Paces,
    Pct,
    PctRange,
    Portfolio,
    Pos,
    Sticky,
    Strategy,
    Uniform,
    Urw,
)
from harness.explore.tape import Divergence, StrictReplay

TWICE = 20  # one schedule of so many is run again
AIM_EVERY = 256
AIMS = 64


class Scenarios(Protocol):
    """Where scenarios come from, such as a ``Swarm``."""

    def draw(self, seed: int) -> Scenario: ...


class Finding(NamedTuple):
    """The first run of a verdict class. ``elapsed_s`` and ``schedule`` (from 1) say when."""

    scenario: Scenario
    outcome: Outcome
    strategy: str
    seed: int
    schedule: int
    elapsed_s: float


class Unrepeatable(NamedTuple):
    """A schedule whose repetition differed: the harness is nondeterministic."""

    scenario: Scenario
    strategy: str
    seed: int
    schedule: int
    problem: str


@dataclass(kw_only=True)
class Report:
    """What a campaign did; plain data, mergeable over processes.

    ``findings`` has the first of each verdict class, ``hits`` how many schedules fell into it.
    ``choices`` and ``tasks`` are the largest of any schedule: they bound what PCT promises.
    """

    seeds: list[int] = field(default_factory=list)
    schedules: int = 0
    repeated: int = 0
    steps: int = 0
    elapsed_s: float = 0.0
    choices: int = 0
    tasks: int = 0
    marks: Marks = field(default_factory=Marks)
    findings: dict[str, Finding] = field(default_factory=dict)
    hits: dict[str, int] = field(default_factory=dict)
    by_strategy: dict[str, int] = field(default_factory=dict)
    unrepeatable: list[Unrepeatable] = field(default_factory=list)

    def merge(self, other: "Report") -> None:
        """Add what another process did meanwhile; of two findings the earlier one is kept."""
        self.seeds += other.seeds
        self.schedules += other.schedules
        self.repeated += other.repeated
        self.steps += other.steps
        self.elapsed_s = max(self.elapsed_s, other.elapsed_s)
        self.choices = max(self.choices, other.choices)
        self.tasks = max(self.tasks, other.tasks)
        self.marks.merge(other.marks)
        for kind, finding in other.findings.items():
            mine = self.findings.get(kind)
            if mine is None or finding.elapsed_s < mine.elapsed_s:
                self.findings[kind] = finding
        _add(self.hits, other.hits)
        _add(self.by_strategy, other.by_strategy)
        self.unrepeatable += other.unrepeatable


def default_portfolio() -> Portfolio:
    """What is searched with unless told otherwise."""
    return Portfolio(
        [
            (35, Urw()),
            (20, Pos()),
            (15, Uniform()),
            (10, Paces()),
            (10, PctRange(2, 6)),
            (10, TapeMutation()),
        ]
    )


class Campaign:
    """Runs schedules of ``scenarios`` under ``strategy``, all from ``seed``.

    Different processes take different seeds, such as ``derive(seed, "job", n)``, and merge reports.
    """

    def __init__(
        self, *, runner: Runner, scenarios: Scenarios, strategy: Strategy, seed: int
    ) -> None:
        self.report = Report(seeds=[seed])
        self._runner, self._scenarios = runner, scenarios
        self._strategy, self._seed = strategy, seed
        self._estimator = Estimator()
        members = strategy.members if isinstance(strategy, Portfolio) else [strategy]
        self._learners = [m for m in members if isinstance(m, TapeMutation)]
        self._directed = [m for m in members if isinstance(m, Directed) and not m.given]

    def run(
        self,
        *,
        elapsed: Callable[[], float],
        budget_s: float,
        schedule_limit: int | None = None,
        enough: Callable[[Report], bool] = lambda report: bool(report.unrepeatable),
    ) -> Report:
        """Run schedules until the budget is spent or ``enough`` says so; may be called again.

        ``elapsed()`` gives the seconds since the campaign began. The report is the campaign's own
        and grows with each call.
        """
        report = self.report
        goal = None if schedule_limit is None else report.schedules + schedule_limit
        while elapsed() < budget_s and report.schedules != goal:
            self._schedule(elapsed)
            if enough(report):
                break
        report.elapsed_s = elapsed()
        return report

    def _schedule(self, elapsed: Callable[[], float]) -> None:
        report, strategy = self.report, self._strategy
        report.schedules += 1
        seed = derive(self._seed, report.schedules)
        if self._directed and report.schedules % AIM_EVERY == 0:
            self._aim()
        strategy.begin(derive(seed, "strategy"), self._estimator.estimate())
        scenario = strategy.scenario
        if scenario is None:
            scenario = self._scenarios.draw(derive(seed, "scenario"))
        outcome = self._runner.run(scenario, strategy.member())
        self._account(scenario, outcome)
        if outcome.verdict is not None:
            kind = outcome.verdict.kind
            report.hits[kind] = report.hits.get(kind, 0) + 1
            if kind not in report.findings:
                report.findings[kind] = Finding(
                    scenario, outcome, strategy.name, self._seed, report.schedules, elapsed()
                )
        if seed % TWICE == 0:
            self._repeat(scenario, outcome)

    def _account(self, scenario: Scenario, outcome: Outcome) -> None:
        report, tape = self.report, outcome.tape
        self._estimator.observe(tape)
        fresh = report.marks.add(outcome.marks)
        for learner in self._learners:
            learner.learn(scenario, tape, fresh)
        report.steps += outcome.steps
        report.choices = max(report.choices, len(tape.values))
        report.tasks = max(report.tasks, len(set(tape.order)))
        _add(report.by_strategy, {self._strategy.name: 1})

    def _repeat(self, scenario: Scenario, outcome: Outcome) -> None:
        """Run it again from its tape and compare."""
        report, problem = self.report, ""
        report.repeated += 1
        try:
            again = self._runner.run(scenario, StrictReplay(outcome.tape))
        except Divergence as error:
            problem = str(error)
        else:
            if again.digest != outcome.digest:
                problem = f"digest {again.digest} instead of {outcome.digest}"
            elif again.verdict != outcome.verdict:
                problem = f"verdict {again.verdict} instead of {outcome.verdict}"
        if problem:
            report.unrepeatable.append(
                Unrepeatable(scenario, self._strategy.name, self._seed, report.schedules, problem)
            )

    def _aim(self) -> None:
        """Head for orders that no schedule has shown so far."""
        for directed in self._directed:
            marks = self.report.marks
            pairs, triples = marks.unseen_pairs(), marks.unseen_triples()
            directed.aims = (*islice(pairs, AIMS), *islice(triples, AIMS))


def towards(text: str) -> Directed:
    """A search for one order, "a -> b" or "a -> b -> c"; ValueError says what an order is."""
    match [name.strip() for name in text.split("->")]:
        case [str(a), str(b)] if a and b:
            return Directed([(a, b)], given=True)
        case [str(a), str(b), str(c)] if a and b and c:
            return Directed([(a, b, c)], given=True)
    raise ValueError(f"{text!r} is no order: two or three points, such as 'admit.lock -> pressure'")


def strategy_named(name: str) -> Strategy:
    """The strategy a user asks for; ValueError lists the names there are."""
    makers: dict[str, Callable[[], Strategy]] = {
        "portfolio": default_portfolio,
        "uniform": Uniform,
        "sticky": Sticky,
        "urw": Urw,
        "paces": Paces,
        "pos": Pos,
        "pct": PctRange,
        "mutation": TapeMutation,
        "directed": Directed,
    }
    if name in makers:
        return makers[name]()
    if name.startswith("pct") and name[3:].isdigit() and int(name[3:]) > 0:
        return Pct(int(name[3:]))
    raise ValueError(f"no strategy {name!r}; there are {', '.join(makers)} and pct1, pct2, ...")


def _add(counts: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count
