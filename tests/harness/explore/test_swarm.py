"""Swarm scenarios: repeatable, within their ranges, and simpler step by step."""

import json

from harness.explore.prng import SplitMix
from harness.explore.swarm import Feature, Many, Number, Options, Swarm, size_of

SWARM = Swarm(
    knobs={
        "slots": Number(2, 9),
        "policy": Options(("write_through", "write_back")),
        "abort": Feature(),
        "requests": Many({"pages": Number(1, 3)}, 1, 4),
    },
    fixed={"grain": "fine"},
)


def test_a_scenario_is_plain_data_and_the_same_for_a_seed() -> None:
    scenario = SWARM.draw(5)
    assert scenario == SWARM.draw(5) == json.loads(json.dumps(scenario))
    assert list(scenario) == ["grain", "slots", "policy", "abort", "requests"]


def test_every_value_of_every_knob_is_drawn() -> None:
    drawn = [SWARM.draw(seed) for seed in range(400)]
    assert {s["slots"] for s in drawn} == set(range(2, 10))
    assert {s["policy"] for s in drawn} == {"write_through", "write_back"}
    assert {s["abort"] for s in drawn} == {True, False}
    assert {len(s["requests"]) for s in drawn} == {1, 2, 3, 4}
    assert {r["pages"] for s in drawn for r in s["requests"]} == {1, 2, 3}


def test_small_numbers_are_drawn_more_often() -> None:
    rng = SplitMix(1)
    drawn = [Number(1, 100).draw(rng) for _ in range(2000)]
    assert sum(n <= 50 for n in drawn) > 1400


def test_a_knob_does_not_depend_on_the_others() -> None:
    alone = Swarm(knobs={"slots": Number(2, 9)}, fixed={})
    assert all(alone.draw(s)["slots"] == SWARM.draw(s)["slots"] for s in range(50))


def test_simpler_scenarios_could_have_been_drawn_and_end_at_the_simplest() -> None:
    for seed in range(50):
        scenario = SWARM.draw(seed)
        while simpler := list(SWARM.smaller(scenario)):
            for candidate in simpler:
                assert 2 <= candidate["slots"] <= 9
                assert 1 <= len(candidate["requests"]) <= 4
                assert all(1 <= r["pages"] <= 3 for r in candidate["requests"])
                assert candidate != scenario
            scenario = simpler[-1]
        (request,) = scenario.pop("requests")
        assert scenario == {
            "grain": "fine",
            "slots": 2,
            "policy": "write_through",
            "abort": False,
        }
        assert request["pages"] == 1


def test_what_was_written_by_hand_gets_simpler_too() -> None:
    knob = Options(("none", "any"))
    assert list(knob.smaller("other")) == ["none", "any"]
    assert list(knob.smaller("any")) == ["none"]


def test_items_keep_their_ids_when_others_are_dropped() -> None:
    value = [{"id": n, "pages": 1} for n in range(4)]
    ids = [[item["id"] for item in shorter] for shorter in SWARM.knobs["requests"].smaller(value)]
    assert ids[:2] == [[0], [3]]
    assert [0, 1, 3] in ids


def test_size_adds_up_numbers_switches_and_lengths() -> None:
    assert size_of({"slots": 2, "abort": True, "name": "long", "requests": [{"pages": 3}]}) == 7
