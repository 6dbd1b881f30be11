"""Small servers: what is drawn is what a release accepts, and every request fits."""

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
