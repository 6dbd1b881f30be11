"""Shrinking: small stories, of the same failure, that replay exactly."""

import pytest

from harness.explore.estimate import Estimate
from harness.explore.outcome import Outcome, Scenario
from harness.explore.pickers import Chooser
from harness.explore.prng import derive
from harness.explore.shrink import nearest_pass, replays_exactly, shrink
from harness.explore.strategies import Uniform
from harness.explore.tape import LenientReplay
from tests.harness.explore.models import (
    Flaky,
    LostUpdate,
    Model,
    Orders,
    Tombstone,
    tombstone_swarm,
)


def first_failures(model: Model, scenarios: list[Scenario]) -> list[tuple[Scenario, Outcome]]:
    """Those of ``scenarios`` that fail under a uniform walk, with their outcomes."""
    found, walk = list[tuple[Scenario, Outcome]](), Uniform()
    for seed, scenario in enumerate(scenarios):
        walk.begin(derive(11, seed), Estimate())
        outcome = model.run(scenario, walk)
        if outcome.verdict is not None:
            found.append((scenario, outcome))
    return found


def test_the_tombstone_race_shrinks_to_its_story_in_six_steps() -> None:
    swarm = tombstone_swarm(fault=True, oracle="ledger")
    failing = first_failures(Tombstone(), [swarm.draw(seed) for seed in range(60)])
    assert len(failing) >= 20
    for scenario, outcome in failing[:20]:
        shrunk = shrink(Tombstone(), scenario, outcome, smaller=swarm.smaller)
        assert shrunk.after[:3] == (2, 2, 6)
        assert shrunk.stable
        assert shrunk.after <= shrunk.before
        assert shrunk.replays <= 300
        points = [point.name for point in shrunk.outcome.points]
        assert points[-1] == "probe.release"
        assert set(points) == {
            "probe.acquire",
            "probe.budget",
            "match",
            "alloc",
            "load.done",
            "probe.release",
        }
        assert len(shrunk.scenario["requests"]) == len(shrunk.scenario["probes"]) == 1


def test_the_nearest_passing_order_names_the_race() -> None:
    swarm = tombstone_swarm(fault=True, oracle="ledger")
    scenario, outcome = first_failures(Tombstone(), [swarm.draw(s) for s in range(60)])[0]
    shrunk = shrink(Tombstone(), scenario, outcome, smaller=swarm.smaller)
    neighbour = shrunk.neighbour
    assert neighbour is not None
    points = [point.name for point in shrunk.outcome.points]
    assert points[neighbour.later - 1] == "probe.release"
    assert points[neighbour.earlier - 1] == "load.done"
    assert (
        str(neighbour) == f"passes if step {neighbour.later} runs before step {neighbour.earlier}"
    )
    again = Tombstone().run(shrunk.scenario, LenientReplay(neighbour.tape))
    assert again.verdict is None


def test_symptoms_shrink_to_at_most_ten_steps_of_three_tasks() -> None:
    swarm = tombstone_swarm(fault=True, oracle="symptom")
    failing = first_failures(Tombstone(), [swarm.draw(seed) for seed in range(200)])
    assert len(failing) >= 5
    for scenario, outcome in failing[:10]:
        shrunk = shrink(Tombstone(), scenario, outcome, smaller=swarm.smaller)
        assert shrunk.after.tasks <= 3
        assert shrunk.after.steps <= 10
        assert shrunk.outcome.verdict is not None
        assert outcome.verdict is not None
        assert shrunk.outcome.verdict.kind == outcome.verdict.kind


def test_orders_of_their_own_get_past_where_the_tape_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swarm = tombstone_swarm(fault=True, oracle="symptom")
    failing = first_failures(Tombstone(), [swarm.draw(seed) for seed in range(400)])
    lengths = {}
    for fresh in (0, 48):
        monkeypatch.setattr("harness.explore.shrink.FRESH", fresh)
        shrunk = [shrink(Tombstone(), *failure, smaller=swarm.smaller) for failure in failing]
        lengths[fresh] = sum(one.after.steps for one in shrunk)
    assert lengths[48] < lengths[0]


def test_shrinking_never_turns_into_another_failure() -> None:
    for scenario, outcome in first_failures(Orders(), [{"names": "abcd"}] * 40):
        shrunk = shrink(Orders(), scenario, outcome)
        assert shrunk.outcome.verdict == outcome.verdict


def test_the_passing_neighbour_was_really_run_in_that_order() -> None:
    swarm = tombstone_swarm(fault=True, oracle="symptom")
    for scenario, outcome in first_failures(Tombstone(), [swarm.draw(s) for s in range(200)])[:10]:
        neighbour = nearest_pass(Tombstone(), scenario, outcome)
        if neighbour is not None:
            earlier, later = neighbour.earlier - 1, neighbour.later - 1
            before, after = outcome.tape.order, neighbour.tape.order
            assert after[:earlier] == before[:earlier]
            assert after[earlier] == before[later]
            assert sorted(after[: later + 1]) == sorted(before[: later + 1])


def test_idle_tasks_are_not_part_of_the_story() -> None:
    scenario = {"tasks": 2, "idle": 6}
    failing = first_failures(LostUpdate(), [scenario] * 30)
    shrunk = shrink(LostUpdate(), *failing[0])
    # All tasks must end before the count is judged, so the idle ones stay, each in one piece.
    assert shrunk.after.tasks == 8
    assert shrunk.after.switches <= 9 < shrunk.before.switches


def test_faults_that_do_not_matter_are_drawn_back() -> None:
    failing = first_failures(Flaky(), [{"copies": 8, "careful": False}] * 200)
    scenario, outcome = max(failing, key=lambda f: sum(c.value != 0 for c in f[1].tape.draws))
    assert sum(choice.value != 0 for choice in outcome.tape.draws) >= 3
    shrunk = shrink(Flaky(), scenario, outcome)
    assert [choice.value for choice in shrunk.outcome.tape.draws if choice.value] == [2]


class Counting(Model):
    """Counts its runs, and differs from run to run when told to."""

    def __init__(self, *, steady: bool) -> None:
        self.runs = 0
        self._steady = steady

    def run(self, scenario: Scenario, chooser: Chooser) -> Outcome:
        self.runs += 1
        more = 0 if self._steady else self.runs % 2
        return LostUpdate().run({"tasks": 2, "idle": 1 + more}, chooser)


def test_the_budget_of_replays_is_kept() -> None:
    _, outcome = first_failures(LostUpdate(), [{"tasks": 2, "idle": 1}] * 30)[0]
    model = Counting(steady=True)
    shrunk = shrink(model, {}, outcome, replay_limit=3)
    assert shrunk.replays == 3
    model = Counting(steady=True)
    shrunk = shrink(model, {}, outcome, go_on=lambda: False)
    assert (shrunk.replays, shrunk.after) == (0, shrunk.before)


def test_a_failure_that_does_not_repeat_is_called_unstable() -> None:
    _, outcome = first_failures(LostUpdate(), [{"tasks": 2, "idle": 1}] * 30)[0]
    assert replays_exactly(Counting(steady=True), {}, outcome)
    assert not replays_exactly(Counting(steady=False), {}, outcome)


def test_only_a_failure_can_be_shrunk() -> None:
    walk = Uniform()
    walk.begin(1, Estimate())
    outcome = LostUpdate().run({"tasks": 1}, walk)
    with pytest.raises(AssertionError, match="only a failure"):
        shrink(LostUpdate(), {"tasks": 1}, outcome)
    assert nearest_pass(LostUpdate(), {"tasks": 1}, outcome) is None
