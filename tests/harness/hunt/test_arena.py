"""The arena: small worlds that repeat, that come to rest, and that reach what they are for."""

import pytest

from harness.engine.marks import MEANINGS
from harness.explore.campaign import Campaign, Report, default_portfolio
from harness.explore.tape import LenientReplay, StrictReplay, Tape
from harness.hunt.runner import ArenaRunner
from harness.hunt.scenario import complete, config_of, swarm
from harness.hunt.story import tell

SCHEDULES = 400
# What small worlds are made for; each must turn up within the schedules of one test.
EXPECTED = (
    "demotion",
    "window_tombstoned",
    "host_eviction",
    "load_back_landed",
    "revived_under_lock",
    "split_with_copy_in_flight",
    "copy_failed",
    "abort_while_queued",
)


def hunt(grain: str, seed: int = 3) -> Report:
    campaign = Campaign(
        runner=ArenaRunner(), scenarios=swarm(grain), strategy=default_portfolio(), seed=seed
    )
    return campaign.run(elapsed=lambda: 0.0, budget_s=1.0, schedule_limit=SCHEDULES)


@pytest.mark.parametrize("grain", ["scheduler", "fine"])
def test_the_clean_cache_is_silent_and_the_hunt_was_not_empty(grain: str) -> None:
    report = hunt(grain)
    assert report.findings == {}
    assert report.unrepeatable == []
    assert report.repeated > 0
    reached = report.marks.sometimes
    assert [mark for mark in EXPECTED if not reached.get(mark)] == []


def test_a_hunt_depends_on_its_seed_alone() -> None:
    first, second, other = hunt("fine"), hunt("fine"), hunt("fine", seed=4)
    assert first.steps == second.steps
    assert first.marks.triples == second.marks.triples
    assert first.steps != other.steps


def test_every_swarm_scenario_is_valid_and_so_is_every_simpler_one() -> None:
    drawn = swarm("fine")
    for seed in range(100):
        scenario = drawn.draw(seed)
        config_of(scenario)
        for smaller in drawn.smaller(scenario):
            config_of(smaller)


def test_a_scenario_by_hand_gets_the_simplest_of_what_it_leaves_out() -> None:
    scenario = complete({"requests": [{"group": 1, "shared": 2}]})
    assert scenario["grain"] == "scheduler"
    assert scenario["requests"][0]["answer"] == 1
    assert ArenaRunner().run(scenario, LenientReplay(Tape([], []))).verdict is None


def test_the_fine_grain_puts_choices_inside_an_admission() -> None:
    world = {"device": 12, "requests": [{"shared": 2}, {"shared": 2, "group": 1}]}
    points = {}
    for grain in ("scheduler", "fine"):
        outcome = ArenaRunner().run(
            complete({**world, "grain": grain}), LenientReplay(Tape([], []))
        )
        points[grain] = {point.name for point in outcome.points}
    assert "admit.lock" not in points["scheduler"]
    assert {"admit.match", "admit.lock", "admit.load_back", "admit.settle"} <= points["fine"]


def test_a_story_tells_each_step_and_does_not_change_the_run() -> None:
    scenario = complete(
        {
            "device": 12,
            "ratio": 1.0,
            "policy": "write_through",
            "setup": [{"serve": True, "pages": 3}, {"full": 3}],
            "requests": [{"shared": 3, "chunk": 4}],
        }
    )
    runner = ArenaRunner()
    plain = runner.run(scenario, LenientReplay(Tape([], [])))
    story, told = tell(runner, scenario, plain.tape)
    assert told.digest == plain.digest
    assert [step.task for step in story.steps] == plain.tape.order
    admitted = next(step for step in story.steps if step.point == "admit")
    assert "admit.load_back" in admitted.inner
    assert any("(F)" in change for change in admitted.changes), "the node is filling"
    assert runner.run(scenario, StrictReplay(plain.tape)).digest == plain.digest


def test_every_mark_has_a_meaning_and_a_name_of_its_own() -> None:
    names = [meaning.mark for meaning in MEANINGS]
    assert len(names) == len(set(names))
    assert all(meaning.meaning for meaning in MEANINGS)
