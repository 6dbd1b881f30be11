"""The arena: small worlds that repeat, that come to rest, and that reach what they are for."""

import pytest

from harness.engine.marks import MEANINGS
from harness.explore.campaign import Campaign, Report, default_portfolio
from harness.explore.estimate import Estimate
from harness.explore.strategies import Uniform
from harness.explore.tape import LenientReplay, PointReplay, StrictReplay, Tape
from harness.hunt.runner import ArenaRunner
from harness.hunt.scenario import complete, config_of, simpler, swarm
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
        for smaller in simpler(scenario):
            config_of(smaller)


def test_what_is_over_before_a_story_begins_becomes_set_up() -> None:
    requests = [{"group": 1, "shared": 4, "chunk": 2}, {"group": 0, "shared": 2, "chunk": 3}]
    world = complete({"requests": requests, "pressure": [{"full": 2, "swa": 1}]})
    served, room = (
        [one for one in simpler(world) if one["setup"] and one["setup"][0]["serve"] is serve]
        for serve in (True, False)
    )
    assert [(w["setup"][0]["group"], w["setup"][0]["pages"]) for w in served] == [(1, 4), (0, 2)]
    assert [[r["id"] for r in w["requests"]] for w in served] == [[1], [0]]
    assert [(w["setup"][0]["full"], w["setup"][0]["swa"], w["pressure"]) for w in room] == [
        (2, 1, [])
    ]
    full = {**world, "setup": [{"id": n, **served[0]["setup"][0]} for n in range(5)]}
    assert all(len(one["setup"]) <= 5 for one in simpler(full))
    assert any(one["requests"][0]["chunk"] == 3 for one in simpler(world))


def test_a_fine_order_is_told_again_in_the_coarse_grain() -> None:
    requests = [{"shared": 3, "chunk": 1, "answer": 3}, {"shared": 3, "group": 1, "chunk": 2}]
    world = {"device": 14, "ratio": 0.0, "requests": requests}
    fine, coarse = (complete({**world, "grain": grain}) for grain in ("fine", "scheduler"))
    walk = Uniform()
    for seed in range(20):
        walk.begin(seed, Estimate())
        told = ArenaRunner().run(fine, walk).tape
        again = ArenaRunner().run(coarse, PointReplay(told)).tape
        kept = [
            (task, point.name)
            for task, point in zip(told.order, told.points, strict=True)
            if not point.name.startswith("admit.")
        ]
        assert [(t, p.name) for t, p in zip(again.order, again.points, strict=True)] == kept


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


def landed(storage: dict[str, object], **request: object) -> set[bool]:
    """Whether storage brought a request its prefix, over the orders of a small world."""
    scenario = complete(
        {
            "ratio": 2.0,
            "device": 12,
            "requests": [{"shared": 5, **request}],
            "storage": [{"warm": 4, **storage}],
        }
    )
    seen, strategy = set[bool](), Uniform()
    for seed in range(60):
        strategy.begin(seed, Estimate())
        outcome = ArenaRunner().run(scenario, strategy)
        assert outcome.verdict is None
        seen.add("prefetch_landed" in outcome.marks.sometimes)
    return seen


def test_what_storage_is_given_late_is_there_for_some_and_not_for_others() -> None:
    assert landed({}) == {True}
    assert landed({"late": True}) == {True, False}
    assert landed({}, unasked=True) == {False}


def test_who_waits_in_a_queue_finds_what_its_prefetch_has_brought_meanwhile() -> None:
    assert landed({"policy": "best_effort"}) == {False}
    assert landed({"policy": "best_effort", "queue": 8}) == {True, False}
