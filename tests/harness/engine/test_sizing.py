"""Pools from memory: SGLang's conventions, worked out by hand, and what does not fit."""

import pytest

from cache.config import Component, ConfigError
from cache.shapes import PRESETS, KvDtype, StateDtype
from harness.engine.hardware import HARDWARE
from harness.engine.sizing import size_pools

SEED_REPORT = {
    "tp": 2,
    "kv_dtype": KvDtype.FP8_E4M3,
    "mem_fraction_static": 0.85,
    "page_size": 64,
    "context_length": 32768,
}


def _size(model="gemma-4-31B-it", hardware="H200", **settings):
    return size_pools(PRESETS[model], HARDWARE[hardware], **{**SEED_REPORT, **settings})


def test_the_seed_report_gets_the_pools_worked_out_by_hand():
    sizing = _size(hicache_ratio=1.0)
    full_page, swa_page = 64 * 20480, 64 * 204800
    weights = PRESETS["gemma-4-31B-it"].weight_bytes // 2
    pages = int((141e9 * 0.85 - weights) // (full_page + 0.8 * swa_page))
    assert sizing.config.page_bytes == (full_page, swa_page, 0)
    assert sizing.config.full == (pages, pages)
    assert sizing.config.swa == (int(0.8 * pages), int(0.8 * pages))
    assert sizing.config.window == 1024
    assert sizing.weight_bytes == weights
    assert sizing.host_bytes == sizing.kv_bytes
    assert sizing.device_tokens == 64 * pages


def test_weights_pools_and_reserve_fill_the_memory_and_no_more():
    sizing = _size()
    left = sizing.memory_bytes - sizing.weight_bytes - sizing.reserve_bytes - sizing.kv_bytes
    full_page, swa_page, _ = sizing.config.page_bytes
    assert 0 <= left < full_page + 2 * swa_page  # less than a page of each, and SWA rounded down


def test_without_ratio_and_size_there_is_no_host_tier():
    sizing = _size()
    assert not sizing.config.hierarchical
    assert sizing.host_bytes == 0


@pytest.mark.parametrize("ratio", [0.25, 0.5, 2.0, 8.0])
def test_the_ratio_applies_to_each_pool(ratio):
    config = _size(hicache_ratio=ratio).config
    for component in config.components:
        pools = config.pools(component)
        assert pools.host == int(pools.device * ratio)


def test_a_size_overrides_the_ratio_and_is_split_as_the_device_bytes_are():
    sizing = _size(hicache_ratio=8.0, hicache_size_gb=30)
    config = sizing.config
    assert sizing.host_bytes <= 30e9
    assert sizing.host_bytes == pytest.approx(30e9, rel=0.001)
    assert config.full.host / config.full.device == pytest.approx(
        config.swa.host / config.swa.device, rel=0.01
    )


def test_a_size_of_nought_means_the_ratio_as_in_sglang():
    assert _size(hicache_ratio=2.0, hicache_size_gb=0).config == _size(hicache_ratio=2.0).config


def test_device_pages_set_the_pool_whatever_the_memory():
    sizing = _size(hardware="cpu", tp=1, device_pages=10_000_000, hicache_ratio=0.25)
    assert sizing.config.full == (10_000_000, 2_500_000)
    assert sizing.config.swa.device == 8_000_000


def test_full_alone_takes_the_sliding_layers_in():
    config = _size(components=(Component.FULL,)).config
    assert config.components == (Component.FULL,)
    assert config.window == 0
    assert config.page_bytes == (64 * (20480 + 204800), 0, 0)


def test_a_model_without_sliding_layers_has_one_pool():
    config = _size("Qwen3-8B", tp=1, kv_dtype=KvDtype.BF16).config
    assert config.swa is None
    assert config.page_bytes == (64 * 36 * 8 * 256 * 2, 0, 0)


def test_more_ranks_leave_room_for_more_pages():
    pages = [_size(tp=tp).config.full.device for tp in (1, 2, 4)]
    assert pages[0] < pages[1] < pages[2]


def test_tiny_pools_have_a_host_slot_each():
    config = _size("tiny", device_pages=3, hicache_ratio=0.25).config
    assert (config.full.host, config.swa.host) == (1, 1)


def test_states_and_kv_share_what_the_weights_leave_as_in_sglang():
    """rest * ratio / (1 + ratio) for states, worked out by hand for 0.9, the default."""
    sizing = _size("Qwen3-Next-80B-A3B", hicache_ratio=2.0)
    shape, config = PRESETS["Qwen3-Next-80B-A3B"], sizing.config
    state = 36 * (16 * 128 * 128 * 4 + 4096 * 3 * 2)
    left = 141e9 * 0.85 - shape.weight_bytes / 2
    assert config.components == (Component.FULL, Component.MAMBA)
    assert config.page_bytes == (64 * 12 * 512, 0, state)
    assert config.mamba.device == int(left * 0.9 / 1.9 / state)
    assert config.mamba.host == 2 * config.mamba.device
    assert config.full.device == int((left - config.mamba.device * state) // (64 * 12 * 512))
    assert sizing.kv_bytes <= left


def test_a_number_of_states_leaves_the_rest_to_kv():
    few, more = (_size("Nemotron-H-8B", context_length=8192, max_mamba_cache_size=n).config
                 for n in (64, 256))  # fmt: skip
    assert (few.mamba.device, more.mamba.device) == (64, 256)
    assert few.full.device > more.full.device


def test_given_pages_have_states_by_the_same_ratio():
    sizing = _size("Nemotron-H-8B", context_length=8192, device_pages=1000, tp=1)
    kv, state = 1000 * sizing.config.page_bytes[0], sizing.config.page_bytes[2]
    assert sizing.config.mamba.device == max(2, int(kv * 0.9 / state))
    assert sizing.config.full.device == 1000


def test_states_of_sixteen_bits_are_nearly_twice_as_many():
    wide, narrow = (
        _size("Qwen3-Next-80B-A3B", state_dtype=dtype).config.mamba.device for dtype in StateDtype
    )
    assert 1.9 * wide < narrow < 2 * wide


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mamba_full_memory_ratio": 0}, "--mamba-full-memory-ratio"),
        ({"components": tuple(Component)}, "no recurrent layers: use --components full,swa"),
        ({"model": "Qwen3-Next-80B-A3B", "components": (Component.FULL,)}, "full,mamba"),
        ({"model": "Qwen3-Next-80B-A3B", "max_mamba_cache_size": 1}, "--max-mamba-cache-size"),
        ({"hicache_ratio": 0}, "--hicache-ratio must lie between 0.25 and 8"),
        ({"hicache_ratio": 8.5}, "--hicache-ratio"),
        ({"hicache_ratio": float("nan")}, "--hicache-ratio"),
        ({"hicache_size_gb": -1}, "--hicache-size"),
        ({"hicache_size_gb": float("inf")}, "--hicache-size"),
        ({"page_size": 65536}, "--page-size must lie between 1 and the context of 32768"),
        ({"page_size": 0}, "--page-size"),
        ({"context_length": 10**9}, "--context-length"),
        ({"tp": 3}, "--tp 3 does not divide"),
        ({"tp": 0}, "--tp 0"),
        ({"mem_fraction_static": 0}, "--mem-fraction-static"),
        ({"mem_fraction_static": 1.5}, "--mem-fraction-static"),
        ({"swa_full_tokens_ratio": 0}, "--swa-full-tokens-ratio"),
        ({"device_pages": 0}, "--device-pages"),
        ({"device_pages": 8}, "--device-pages"),  # six SWA slots, a window has sixteen
        ({"components": (Component.SWA,)}, "--components full"),
        ({"hardware": "cpu", "tp": 1}, "raise --tp"),
        ({"hardware": "A100", "tp": 1, "mem_fraction_static": 0.7}, "larger --hardware"),
        ({"hardware": "A100", "tp": 1, "mem_fraction_static": 0.77}, "does not fit"),
        ({"model": "Qwen3-8B", "components": (Component.FULL, Component.SWA)}, "--components full"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line_that_helps(settings, words):
    with pytest.raises(ConfigError) as refusal:
        _size(**settings)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
