"""Companions in the arena: every draw is a world, and the micro-scenario sees what it is for."""

from collections import Counter
from pathlib import Path

import pytest

from cache.config import Component
from harness.explore.tape import LenientReplay, Tape
from harness.hunt.exhaustive import search_exhaustively
from harness.hunt.runner import ArenaRunner
from harness.hunt.scenario import complete, config_of, configs_of, swarm
from harness.hunt.scenarios import load_scenario

MICRO = Path(__file__).resolve().parents[2] / "scenarios" / "micro" / "prefetch_of_companions.toml"


def test_every_draw_is_a_world_of_either_kind_for_every_owner():
    seen: Counter[object] = Counter()
    for seed in range(400):
        config = config_of(swarm("fine", companions_share=1.0).draw(seed))
        assert 1 <= len(config.companions) <= 2
        for companion in config.companions:
            seen.update([companion.owner, companion.pools is None, f"apart {companion.apart}"])
            if companion.pools is not None:
                assert config.pools(companion.owner).device <= companion.pools.device
    assert min(seen[c] for c in Component) > 20
    assert min(seen[kind] for kind in (True, False, "apart True", "apart False")) > 100


def test_worlds_without_them_have_none():
    assert config_of(complete({"companions": [{"own": True}]})).companions == ()


def test_other_ranks_have_more_slots_beside_more_pages():
    world = {"accompanied": True, "companions": [{"own": True}], "ranks": [{"spare": 2}]}
    first, second = configs_of(complete({"device": 12, **world}))
    assert second.pools(Component.FULL).device == first.pools(Component.FULL).device + 2


def test_a_companion_of_a_component_that_is_not_there_is_one_of_full():
    world = complete({"accompanied": True, "companions": [{"owner": "mamba"}]})
    assert [c.owner for c in config_of(world).companions] == [Component.FULL]


def test_the_slots_beside_are_read_in_a_run():
    world = {"device": 12, "accompanied": True, "companions": [{"own": True}, {}]}
    runner = ArenaRunner()
    outcome = runner.run(complete({**world, "requests": [{"shared": 3}]}), LenientReplay(Tape()))
    assert outcome.verdict is None
    pool = runner.cache.pool(Component.FULL, 0)
    assert [beside.name for beside in pool.companions] == ["side0", "side1"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "fault", ["page-freed-while-its-companion-comes", "orphans-counted-as-there"]
)
def test_every_order_of_the_micro_scenario_finds_the_fault(fault: str):
    searched = search_exhaustively(load_scenario(MICRO), fault, budget_s=120)
    assert searched.told
