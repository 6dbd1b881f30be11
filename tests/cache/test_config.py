"""A cache's settings: what is derived from them, and what is refused with which words."""

import dataclasses

import pytest

from cache.config import (
    CacheConfig,
    Component,
    ConfigError,
    EvictionOrder,
    PoolPages,
    Tier,
    WritePolicy,
)

POOL = PoolPages(device=8, host=4)


def test_defaults_are_valid_and_full_only():
    config = CacheConfig()
    assert config.components == (Component.FULL,)
    assert config.hierarchical
    assert config.window_pages == 0
    assert config.write_policy is WritePolicy.WRITE_THROUGH_SELECTIVE


def test_names_of_policies_are_those_of_the_flags():
    assert [str(policy) for policy in WritePolicy] == [
        "write_through",
        "write_through_selective",
        "write_back",
    ]
    assert [str(order) for order in EvictionOrder] == ["lru", "lfu", "priority"]
    assert (Tier.DEVICE, Tier.HOST) == (0, 1)
    assert tuple(Component) == (0, 1, 2)


@pytest.mark.parametrize(
    ("window", "page_size", "pages"), [(1, 64, 1), (64, 64, 1), (65, 64, 2), (1024, 1, 1024)]
)
def test_window_pages_round_up(window, page_size, pages):
    config = CacheConfig(page_size=page_size, swa=PoolPages(1024, 1), window=window)
    assert config.window_pages == pages


def test_pools_are_found_by_component():
    config = CacheConfig(full=PoolPages(9, 3), swa=POOL, window=64)
    assert config.pools(Component.FULL) == (9, 3)
    assert config.pools(Component.SWA) == (8, 4)
    assert config.components == (Component.FULL, Component.SWA)


def test_what_is_indexed_by_component_reaches_to_the_last_that_is_there():
    states = CacheConfig(mamba=POOL)
    assert states.components == (Component.FULL, Component.MAMBA)
    assert states.width == 3
    assert CacheConfig().width == 1
    assert CacheConfig(swa=POOL, window=64).width == 2
    both = CacheConfig(swa=POOL, window=64, mamba=PoolPages(2, 1))
    assert both.components == tuple(Component)
    assert both.pools(Component.MAMBA) == (2, 1)


def test_a_node_has_a_slot_for_each_page_and_one_state():
    config = CacheConfig(page_size=4, mamba=POOL)
    assert [config.slots(c, 12) for c in Component] == [3, 3, 1]


def test_asking_for_an_absent_component_is_a_programmer_error():
    with pytest.raises(AssertionError, match="SWA"):
        CacheConfig().pools(Component.SWA)


def test_no_host_slots_mean_no_hierarchy():
    assert not CacheConfig(full=PoolPages(8, 0), swa=PoolPages(8, 0), window=64).hierarchical


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"page_size": 0}, "--page-size"),
        ({"load_back_threshold": -1}, "load-back threshold"),
        ({"window": 64}, "--components full,swa"),
        ({"swa": POOL}, "--components full"),
        ({"swa": PoolPages(1, 1), "window": 128}, "--device-pages"),
        ({"full": PoolPages(0, 0)}, "--device-pages"),
        ({"full": PoolPages(8, -1)}, "--hicache-ratio"),
        ({"swa": PoolPages(8, 0), "window": 64}, "--disable-hierarchical-cache"),
        ({"full": PoolPages(8, 0), "swa": POOL, "window": 64}, "--disable-hierarchical-cache"),
        ({"page_bytes": (1,), "swa": POOL, "window": 64}, "page bytes"),
        ({"page_bytes": (1, -1)}, "page bytes"),
        ({"page_bytes": (1, 1), "mamba": POOL}, "page bytes"),
        ({"mamba": PoolPages(1, 1)}, "--max-mamba-cache-size"),
        ({"mamba": PoolPages(8, 0)}, "--disable-hierarchical-cache"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line_that_helps(settings, words):
    with pytest.raises(ConfigError) as refusal:
        CacheConfig(**settings)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_replacing_a_setting_checks_again():
    with pytest.raises(ConfigError):
        dataclasses.replace(CacheConfig(), page_size=-64)
