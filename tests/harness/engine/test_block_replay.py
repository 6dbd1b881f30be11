"""Replay of ids as pages: the published numbers, and a naive LRU for everything else."""

from collections import OrderedDict
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.audit import audit
from cache.config import CacheConfig, Component, PoolPages, Tier
from cache.unified import UnifiedCache
from harness.engine.block_replay import BlockReplay, pages_of_ids, replay_blocks
from workloads.traces.mooncake import read_mooncake

TRACES = Path(__file__).resolve().parents[3].parent / "shared" / "traces" / "mooncake"
GOLDEN = [
    ("conversation", 1_000, 0.0445, 274_653),
    ("conversation", 5_000, 0.1118, 251_240),
    ("conversation", 10_000, 0.2116, 217_454),
    ("conversation", 100_000, 0.3637, 83_576),
    ("conversation", 182_790, 0.3664, 0),
    ("synthetic", 1_000, 0.0841, 110_625),
    ("synthetic", 5_000, 0.2793, 82_834),
    ("synthetic", 10_000, 0.4239, 60_208),
    ("synthetic", 100_000, 0.6396, 0),
]


def path_of(name: str) -> Path:
    return TRACES / f"{name}_trace.jsonl"


@cache
def rows_of(name: str) -> list[tuple[int, ...]]:
    return list(read_mooncake(path_of(name)).rows())


def cache_of(pages: int, page_size: int = 1) -> UnifiedCache:
    return UnifiedCache(CacheConfig(page_size=page_size, full=PoolPages(pages, 0)))


def naive(rows, capacity: int) -> BlockReplay:
    """Match, touch leaf first, evict: the rule, block by block."""
    kept: OrderedDict[tuple[int, ...], None] = OrderedDict()
    pages = hits = evicted = 0
    for row in rows:
        prefixes = [row[: i + 1] for i in range(len(row))]
        pages += len(row)
        hits += next((i for i, p in enumerate(prefixes) if p not in kept), len(row))
        for prefix in reversed(prefixes):
            kept[prefix] = None
            kept.move_to_end(prefix)
        while len(kept) > capacity:
            kept.popitem(last=False)
            evicted += 1
    return BlockReplay(len(rows), pages, hits, evicted)


@pytest.mark.parametrize(("name", "capacity", "rate", "evicted"), GOLDEN)
def test_the_published_numbers_of_the_whole_traces(name, capacity, rate, evicted):
    if not path_of(name).exists():
        pytest.skip(f"the whole {name} trace is not there")
    total = replay_blocks(cache_of(capacity), rows_of(name))
    assert round(total.prefix_block_hit_rate, 4) == rate
    assert total.evicted_pages == evicted


@pytest.mark.parametrize("capacity", [10, 100, 1_000, 5_000, 30_000])
def test_the_bundled_head_equals_the_naive_rule(capacity):
    rows = list(read_mooncake(Path("tests/data/mooncake_conversation_1000.jsonl")).rows())
    assert replay_blocks(cache_of(capacity), rows) == naive(rows, capacity)


# Few ids and a shared trunk: prefixes meet, part, and come back whole.
ROWS = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple), min_size=1, max_size=40
)


@given(ROWS, st.integers(1, 30), st.sampled_from([1, 2, 64]))
def test_any_rows_at_any_capacity_equal_the_naive_rule(rows, capacity, page_size):
    """Prompts longer than the cache included."""
    cache, totals = cache_of(capacity, page_size), []
    total = replay_blocks(cache, rows, on_prompt=totals.append)
    assert total == naive(rows, capacity)
    assert totals == [naive(rows[: i + 1], capacity) for i in range(len(rows))]
    assert audit(cache) == []
    assert cache.flush()
    assert cache.pool(Component.FULL, Tier.DEVICE).used_slots == 0


@pytest.mark.parametrize("page_size", [1, 64])
def test_the_same_prompt_again_and_again_is_a_full_hit(page_size):
    total = replay_blocks(cache_of(5, page_size), [(1, 2, 3)] * 4)
    assert total == BlockReplay(4, 12, 9, 0)
    assert total.prefix_block_hit_rate == 0.75


def test_a_prompt_longer_than_the_cache_passes_through():
    rows = [(1, 2, 3, 4, 5), (1, 2, 3, 4, 5), (9,)]
    assert replay_blocks(cache_of(3), rows) == naive(rows, 3) == BlockReplay(3, 11, 3, 5)


def test_an_empty_trace_has_no_hits():
    assert replay_blocks(cache_of(3), []).prefix_block_hit_rate == 0.0


@pytest.mark.parametrize("page_size", [1, 2, 64])
def test_each_id_is_a_page_of_its_own(page_size):
    ids = (0, 1, 2**31 - 1) if page_size == 1 else (0, 1, 2**31 - 1, 2**31, 2**40 + 1)
    data, width = pages_of_ids(ids, page_size), 4 * page_size
    pages = [data[i : i + width] for i in range(0, len(data), width)]
    assert len(set(pages)) == len(pages) == len(ids)
