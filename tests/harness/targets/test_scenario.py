"""Small servers: what is drawn is what a release accepts, and every request fits."""

from itertools import islice

import pytest

from harness.targets.sglang.eras import era_of
from harness.targets.sglang.prompts import prompts_of
from harness.targets.sglang.scenario import complete, shape_of, simpler, swarm

SEEDS = range(200)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_request_fits_into_an_empty_cache(seed: int) -> None:
    scenario = swarm().draw(seed)
    shape, prompts = shape_of(scenario), prompts_of(scenario)
    for prompt in prompts:
        tokens = len(prompt.tokens(prompts)) + prompt.answer
        assert tokens + shape.page_size < shape.full
        assert tokens < shape.context
    if shape.window:
        assert max(shape.chunk, shape.window) + shape.page_size < shape.swa <= shape.full
    if shape.states:
        assert shape.page_size == 1
        assert shape.states > 3 * shape.running


def test_a_release_without_storage_has_simpler_scenarios_too() -> None:
    scenario = swarm(era_of("0.5.12")).draw(7)
    assert "storage" not in scenario
    assert all("sizes" in one or "storage" not in one for one in simpler(scenario))


@pytest.mark.parametrize("seed", range(20))
def test_simpler_scenarios_keep_room_for_a_request_that_is_alone(seed: int) -> None:
    for scenario in islice(simpler(swarm().draw(seed)), 80):
        shape, prompts = shape_of(scenario), prompts_of(scenario)
        for prompt in prompts:
            assert len(prompt.tokens(prompts)) + prompt.answer + shape.page_size < shape.full
        if shape.window:
            assert max(shape.chunk, shape.window) + shape.page_size < shape.swa <= shape.full
        if shape.states:
            assert shape.states > 3 * shape.running


def test_a_request_less_leaves_the_sizes_as_they_are() -> None:
    scenario = swarm().draw(7)
    sizes = shape_of(scenario)
    fewer = [
        one
        for one in simpler(scenario)
        if "sizes" in one and len(one["requests"]) < len(scenario["requests"])
    ]
    assert fewer
    assert all(shape_of(one) == sizes for one in fewer)


def test_a_request_can_be_served_before_the_story_begins() -> None:
    rows = [{"shared": 1}, {"shared": 2}, {"shared": 3}]
    scenario = complete({"requests": rows})
    assert not any(prompt.served for prompt in prompts_of(scenario))
    sooner = [one for one in simpler(scenario) if one.get("served") == 1]
    served = [[prompt.id for prompt in prompts_of(one) if prompt.served] for one in sooner]
    assert served == [[0], [1], [2]]


def test_all_three_components_are_drawn_where_a_release_can_copy_them_together() -> None:
    def drawn(version: str) -> bool:
        seen = (swarm(era_of(version)).draw(seed)["components"] for seed in SEEDS)
        return "full+swa+mamba" in seen

    assert not drawn("0.5.15")
    assert drawn("0.5.18")


def ratios(version: str) -> set[float]:
    return {swarm(era_of(version)).draw(seed)["ratio"] for seed in SEEDS}


def test_a_host_pool_is_smaller_than_the_device_only_where_the_release_takes_it() -> None:
    assert ratios("0.5.13") == {0.0, 1.0, 2.0}
    assert ratios("0.5.15") == {0.0, 0.5, 1.0, 2.0}


def test_a_later_turn_begins_with_what_was_said_before() -> None:
    scenario = complete({"requests": [{"shared": 3, "answer": 2}, {"turn": True, "own": 1}]})
    first, second = prompts_of(scenario)
    said = first.tokens([first, second])
    assert second.tokens([first, second])[: len(said)] == said
    assert second.waits_for == first.rid


def test_simpler_scenarios_can_be_built_too() -> None:
    scenario = swarm().draw(7)
    smaller = list(simpler(scenario))
    assert smaller
    for one in smaller:
        shape_of(one)
        prompts_of(one)


def test_storage_is_drawn_where_a_release_prefetches_and_there_is_a_host_tier() -> None:
    known = swarm(era_of("0.5.23")).knobs
    assert "storage" in known
    assert "storage" not in swarm(era_of("0.5.12")).knobs
    drawn = [swarm(era_of("0.5.23")).draw(seed) for seed in SEEDS]
    there = [one for one in drawn if shape_of(one).storage]
    assert 0 < len(there) < len(drawn)
    assert all(shape_of(one).hierarchical for one in there)


def test_a_replay_from_before_storage_was_drawn_has_none() -> None:
    scenario = dict(swarm(era_of("0.5.23")).draw(1))
    for name in ("storage", "prefetch", "threshold", "batch", "stored", "failing"):
        scenario.pop(name)
    assert shape_of(scenario).storage == ""
    assert shape_of(scenario).batch == 128


def test_a_simpler_server_has_no_storage() -> None:
    seeds = [seed for seed in SEEDS if shape_of(swarm().draw(seed)).storage]
    sizes = [one["sizes"] for one in simpler(swarm().draw(seeds[0])) if "sizes" in one]
    assert {size["storage"] for size in sizes} == {"", "file"}
