"""Campaigns: repeatable, within budget, mergeable, and able to catch a harness that cheats."""

import pickle
from itertools import count

import pytest

from harness.explore.campaign import Campaign, Report, default_portfolio
from harness.explore.guided import Directed
from harness.explore.kernel import Kernel
from harness.explore.marks import certify
from harness.explore.outcome import Outcome, Scenario
from harness.explore.pickers import Chooser
from harness.explore.prng import derive
from harness.explore.strategies import Portfolio, Uniform
from harness.explore.tape import LenientReplay
from tests.harness.explore.models import Judge, LostUpdate, Model, Tombstone, tombstone_swarm


def campaign(seed: int, *, fault: bool = True, oracle: str = "ledger") -> Campaign:
    return Campaign(
        runner=Tombstone(),
        scenarios=tombstone_swarm(fault=fault, oracle=oracle),
        strategy=default_portfolio(),
        seed=seed,
    )


def run(work: Campaign, schedules: int) -> Report:
    return work.run(elapsed=lambda: 0.0, budget_s=1.0, schedule_limit=schedules)


def test_a_campaign_repeats_from_its_seed_in_one_piece_or_two() -> None:
    whole, parts = campaign(1), campaign(1)
    run(whole, 120)
    run(parts, 50)
    run(parts, 70)
    assert pickle.dumps(whole.report) == pickle.dumps(parts.report)
    assert whole.report.schedules == 120
    assert (
        whole.report.hits
        != campaign(2).run(elapsed=lambda: 0.0, budget_s=1.0, schedule_limit=120).hits
    )


@pytest.mark.parametrize(("oracle", "limit"), [("ledger", 60), ("symptom", 600)])
def test_a_random_swarm_finds_the_tombstone_race(oracle: str, limit: int) -> None:
    # One schedule in 3 fails by the ledger, one in 17 by the symptom: the chance to miss it in so
    # many is (2/3)^60 < 1e-10, or (16/17)^600 < 1e-15; even half the share leaves it below 1e-7.
    kinds = {"ledger": "ledger.foreign_release", "symptom": "content.foreign_read"}
    for seed in range(5):
        report = run(campaign(seed, oracle=oracle), limit)
        assert list(report.findings) == [kinds[oracle]]
        finding = report.findings[kinds[oracle]]
        again = Tombstone().run(finding.scenario, LenientReplay(finding.outcome.tape))
        assert again.digest == finding.outcome.digest


@pytest.mark.parametrize("oracle", ["ledger", "symptom"])
def test_the_fixed_cache_stays_silent(oracle: str) -> None:
    report = run(campaign(3, fault=False, oracle=oracle), 600)
    assert report.findings == {}
    assert report.unrepeatable == []
    certificate = certify(report.marks, violations=0, required={"revived": 100, "alloc.wait": 1})
    assert certificate.verdict == "pass"
    assert certificate.failure_bound == 3 / 600
    assert certificate.unseen_mass < 0.05


def test_the_budget_of_time_is_kept() -> None:
    clock = count()
    report = campaign(1).run(elapsed=lambda: next(clock) / 10, budget_s=2.0)
    assert 5 <= report.schedules <= 20
    assert report.elapsed_s >= 2.0


def test_a_campaign_can_stop_at_its_first_finding() -> None:
    report = campaign(1).run(
        elapsed=lambda: 0.0, budget_s=1.0, enough=lambda report: bool(report.findings)
    )
    assert sum(report.hits.values()) == 1
    (finding,) = report.findings.values()
    assert finding.schedule == report.schedules


def test_a_part_of_all_schedules_is_run_twice() -> None:
    report = run(campaign(1), 1000)
    assert 20 <= report.repeated <= 90  # 50 expected, more than four standard deviations each way
    assert report.unrepeatable == []


class Shifty(Model):
    """Its world depends on how many runs there were before."""

    def __init__(self) -> None:
        self._runs = 0

    def run(self, scenario: Scenario, chooser: Chooser) -> Outcome:
        self._runs += 1
        return LostUpdate().run({"tasks": 1, "idle": 1 + self._runs % 2}, chooser)


class Drifting(Model):
    """Takes the same steps each time, to another object."""

    def __init__(self) -> None:
        self._runs = 0

    def build(self, kernel: Kernel, scenario: Scenario, sometimes: dict[str, int]) -> Judge:
        self._runs += 1

        async def touch() -> None:
            await kernel.point("touch", ("node", self._runs))

        kernel.spawn("A", touch())
        return lambda ended: None


class Fixed:
    """Always the same scenario."""

    def draw(self, seed: int) -> Scenario:
        return {}


@pytest.mark.parametrize(
    ("model", "problem"), [(Shifty, "replay diverged at step"), (Drifting, "digest ")]
)
def test_a_harness_that_does_not_repeat_is_caught(model: type[Model], problem: str) -> None:
    work = Campaign(runner=model(), scenarios=Fixed(), strategy=Uniform(), seed=1)
    report = work.run(elapsed=lambda: 0.0, budget_s=1.0, schedule_limit=1000)
    assert report.schedules < 1000
    (caught,) = report.unrepeatable
    assert caught.problem.startswith(problem)
    assert caught.schedule == report.schedules


def test_reports_of_processes_merge() -> None:
    reports = [run(campaign(derive(9, "job", n)), 80) for n in range(2)]
    copies = [pickle.loads(pickle.dumps(report)) for report in reports]
    merged = Report()
    for report in copies:
        merged.merge(report)
    assert merged.schedules == merged.marks.schedules == 160
    assert merged.hits["ledger.foreign_release"] == sum(
        report.hits["ledger.foreign_release"] for report in reports
    )
    assert merged.seeds == [derive(9, "job", 0), derive(9, "job", 1)]
    assert sum(merged.by_strategy.values()) == 160
    finding = merged.findings["ledger.foreign_release"]
    assert finding.outcome.verdict is not None
    assert str(finding.outcome.ended.error).startswith("Violation: node ")


def test_a_directed_campaign_aims_at_what_was_never_seen() -> None:
    class Alone:
        """One request that nobody disturbs: no triple is ever seen."""

        def draw(self, seed: int) -> Scenario:
            requests = [{"id": 0, "node": 0}]
            rest = {"fault": False, "oracle": "ledger", "requests": requests, "probes": []}
            return {"nodes": 1, "slots": 1, "reads": 2, **rest}

    directed = Directed()
    strategy = Portfolio([(1, Uniform()), (1, directed)])
    work = Campaign(runner=Tombstone(), scenarios=Alone(), strategy=strategy, seed=4)
    run(work, 255)
    assert directed.aims == ()
    run(work, 1)
    assert ("match", "load.done", "load.done") in directed.aims
    assert ("read", "match", "read") not in directed.aims
