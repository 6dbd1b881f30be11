"""The benchmark of the cache measures what its notes say."""

from statistics import mean

import pytest

from cache.config import Component, Tier
from cache.unified import UnifiedCache
from harness.bench import cache as bench


@pytest.fixture(params=[bench.spread_forest, bench.deep_forest], ids=["spread", "deep"])
def forest(request):
    return request.param()


def _grown(forest) -> UnifiedCache:
    cache = UnifiedCache(bench.config())
    for key in forest.stored:
        bench.finish_s(cache, key)
    return cache


def test_fifty_sequences_of_32k_tokens_share_prefixes_of_one_base(forest):
    assert len(forest.stored) == 50
    assert {key.tokens for key in forest.stored} == {32_768}
    cache = _grown(forest)
    used = cache.pool(Component.FULL, Tier.DEVICE).used_slots
    assert 0.3 < used / (50 * 512) < 0.7


def test_a_match_hits_29k_tokens_on_average(forest):
    cache = _grown(forest)
    hits = [cache.match(key).device_tokens for key in forest.probes]
    assert mean(hits) == pytest.approx(29_000, rel=0.01)


def test_a_deep_match_walks_fifty_nodes():
    forest = bench.deep_forest()
    cache = _grown(forest)
    for key in forest.probes:
        cache.match(key)
    paths = [len(list(cache.match(key).device.ancestors())) for key in forest.probes]
    assert mean(paths) == pytest.approx(50, abs=1)


def test_the_page_slots_of_a_hit_are_those_that_hold_its_pages(forest):
    cache = _grown(forest)
    key = forest.probes[0]
    slots = bench.page_slots(cache.match(key).device)
    pool = cache.pool(Component.FULL, Tier.DEVICE)
    assert pool.store.read(slots) == key.prints()[: len(slots)]


def test_the_table_has_every_operation_of_both_shapes_and_the_reference_where_there_is_one():
    sheet = bench.measure(1)
    table = {row[0]: dict(zip(sheet.columns, row, strict=True)) for row in sheet.rows}
    assert list(table) == [
        f"{shape}: {operation}"
        for shape in ("spread", "deep")
        for operation in ("insert", "match, first", "match", "evict")
    ]
    assert all(row["median_us"] > 0 for row in table.values())
    known = table["deep: match"]
    assert known["rust_us"] == 75
    assert known["rust_x"] == pytest.approx(75 / known["median_us"])
    assert known["null_cache_us"] < known["median_us"]
    assert table["deep: match, first"]["rust_us"] is None
