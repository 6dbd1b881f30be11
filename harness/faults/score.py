"""How well the harness finds its faults: reached, triggered, detected; by whom, how soon.

    reached     the defective code was called
    triggered   it changed what the cache did: the same order of events ends elsewhere than clean
    detected    an oracle spoke

Invariant: a campaign that found nothing counts with its whole budget (right-censored).
"""

import multiprocessing as mp
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import starmap
from typing import NamedTuple

import numpy as np

from harness.explore.campaign import Campaign, Finding, default_portfolio
from harness.explore.outcome import Outcome, Scenario
from harness.explore.prng import derive
from harness.explore.shrink import shrink
from harness.explore.strategies import Strategy
from harness.explore.tape import LenientReplay
from harness.faults import FAULTS, Fault, fault_named
from harness.hunt.picture import picture_of
from harness.hunt.runner import ArenaRunner
from harness.hunt.scenario import simpler, swarm

SHRINK_REPLAYS = 300
STORIES = 1  # campaigns of a fault whose finding is shrunk
Work = tuple[str, int, float, tuple[str, ...], bool]
GRAINS = ("scheduler", "fine")


class Hunted(NamedTuple):
    """One campaign against one fault. `seconds` and `schedules` are its budget's if nothing was
    found; `steps` and `tasks` are of the shrunk story, 0 without one."""

    fault: str
    seed: int
    reached: bool
    triggered: bool
    kind: str
    seconds: float
    schedules: int
    steps: int
    tasks: int

    @property
    def detected(self) -> bool:
        return bool(self.kind)


class FaultScore(NamedTuple):
    """All campaigns against one fault."""

    fault: str
    family: str
    campaigns: int
    reached: int
    triggered: int
    detected: int
    oracle: str  # the verdict class that was seen oftenest
    expected: str
    median_s: float
    p95_s: float
    median_schedules: float
    p95_schedules: float
    story_steps: int
    story_tasks: int


def score(
    names: Sequence[str],
    *,
    budget_s: float,
    campaigns: int,
    seed: int,
    jobs: int,
    without: tuple[str, ...] = (),
    on_hunted: Callable[[Hunted], None] = lambda hunted: None,
) -> tuple[list[FaultScore], list[Hunted]]:
    """Hunt each fault `campaigns` times on `jobs` processes."""
    work = [
        (name, derive(seed, name, number), budget_s, without, number < STORIES)
        for number in range(campaigns)
        for name in names
    ]
    hunted: list[Hunted] = []
    for one in _spread(work, jobs):
        hunted.append(one)
        on_hunted(one)
    return [_total(name, [h for h in hunted if h.fault == name]) for name in names], hunted


def hunt_one(
    name: str, seed: int, budget_s: float, without: tuple[str, ...], shrinking: bool
) -> Hunted:
    """One campaign, until something is found or the budget is spent."""
    runner = _Probe(name, without)
    worlds = BothGrains(fault_named(name))
    campaign = Campaign(runner=runner, scenarios=worlds, strategy=_strategy(), seed=seed)
    started = time.monotonic()
    report = campaign.run(
        elapsed=lambda: time.monotonic() - started,
        budget_s=budget_s,
        enough=lambda r: bool(r.findings),
    )
    seconds = time.monotonic() - started
    found = next(iter(report.findings.values()), None)
    if found is None:
        return Hunted(name, seed, runner.reached, runner.triggered, "", budget_s,
                      report.schedules, 0, 0)  # fmt: skip
    steps, tasks = _smallest(name, without, found) if shrinking else (0, 0)
    verdict = found.outcome.verdict
    assert verdict is not None
    return Hunted(name, seed, True, True, verdict.kind, seconds, report.schedules, steps, tasks)


class _Probe:
    """Runs the faulty cache, and the clean one until they have once parted."""

    def __init__(self, name: str, without: tuple[str, ...]) -> None:
        self._faulty = ArenaRunner(fault_named(name), without=without)
        self._clean = ArenaRunner(without=without)
        self.reached = self.triggered = False

    def run(self, scenario: Scenario, chooser: object) -> Outcome:
        outcome = self._faulty.run(scenario, chooser)  # type: ignore[arg-type]
        self.reached = self.reached or self._faulty.tampered_calls() > 0
        if self.reached and not self.triggered:
            clean = self._clean.run(scenario, LenientReplay(outcome.tape))
            ends = [
                [picture_of(rank) for rank in runner.tortured.ranks]
                for runner in (self._faulty, self._clean)
            ]
            self.triggered = ends[0] != ends[1] or clean.tape.order != outcome.tape.order
        return outcome


class BothGrains:
    """Small worlds of either grain in turn, with what a fault needs."""

    def __init__(self, fault: Fault | None = None) -> None:
        self._drawn = 0
        self._shares = {} if fault is None else fault.shares

    def draw(self, seed: int) -> Scenario:
        self._drawn += 1
        grain = GRAINS[self._drawn % len(GRAINS)]
        return swarm(grain, **self._shares).draw(seed)


def _strategy() -> Strategy:
    return default_portfolio()


def _smallest(name: str, without: tuple[str, ...], found: Finding) -> tuple[int, int]:
    shrunk = shrink(
        ArenaRunner(fault_named(name), without=without),
        found.scenario,
        found.outcome,
        smaller=simpler,
        replay_limit=SHRINK_REPLAYS,
    )
    return shrunk.after.steps, shrunk.after.tasks


def _spread(work: list[Work], jobs: int) -> Iterable[Hunted]:
    if jobs == 1:
        yield from starmap(hunt_one, work)
        return
    with mp.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_star, work)


def _star(given: Work) -> Hunted:
    return hunt_one(*given)


def _total(name: str, hunted: list[Hunted]) -> FaultScore:
    fault = FAULTS[name]
    kinds = [h.kind for h in hunted if h.detected]
    stories = [(h.steps, h.tasks) for h in hunted if h.steps]
    seconds = np.array([h.seconds for h in hunted])
    schedules = np.array([h.schedules for h in hunted])
    steps, tasks = min(stories, default=(0, 0))
    return FaultScore(
        fault=name,
        family=fault.family,
        campaigns=len(hunted),
        reached=sum(h.reached for h in hunted),
        triggered=sum(h.triggered for h in hunted),
        detected=len(kinds),
        oracle=max(sorted(set(kinds)), key=kinds.count, default=""),
        expected=", ".join(fault.oracles),
        median_s=float(np.median(seconds)),
        p95_s=float(np.percentile(seconds, 95)),
        median_schedules=float(np.median(schedules)),
        p95_schedules=float(np.percentile(schedules, 95)),
        story_steps=steps,
        story_tasks=tasks,
    )
