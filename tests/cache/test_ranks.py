"""Several ranks as one cache: alike in all that they decide, whatever their copies do."""

import pytest

from cache.audit import audit
from cache.config import CacheConfig, Component, Tier
from cache.contract import LoadOutcome
from cache.ranks import RankedCache, Standing, standing
from cache.transfers import Copy, CopyState
from cache.unified import UnifiedCache
from tests.cache.builders import a_config, a_key, admit, demote, land, serve
from tests.cache.contract_suite import CacheContract

FULL = Component.FULL


def two_ranks(config: CacheConfig) -> RankedCache:
    return RankedCache([UnifiedCache(config), UnifiedCache(config)])


class TestTwoRanks(CacheContract):
    def build(self, config: CacheConfig) -> RankedCache:
        return two_ranks(config)


class TestTwoRanksWithAHost(CacheContract):
    def build(self, config: CacheConfig) -> RankedCache:
        page, window = config.page_size, config.window
        swa = (5, 5) if window else None
        return two_ranks(a_config(page=page, full=(8, 8), swa=swa, window=window))


@pytest.fixture
def cache() -> RankedCache:
    """A prefix of three pages on its way to the host of each of two ranks."""
    cache = two_ranks(a_config(full=(8, 8), swa=(4, 4), window=2))
    serve(cache, a_key([1, 2, 3]))
    return cache


def heads(cache: RankedCache, tier: Tier) -> list[Copy]:
    return [rank.transfers.queues[tier][0] for rank in cache.ranks]


def free(cache: RankedCache, tier: Tier) -> list[int]:
    return [rank.pool(FULL, tier).free_slots for rank in cache.ranks]


def test_no_pool_is_used_beyond_what_the_rank_with_the_fewest_slots_has():
    sizes = [(9, 5), (7, 8), (8, 6)]
    cache = RankedCache([UnifiedCache(a_config(full=size)) for size in sizes])
    assert cache.config.full == (7, 5)
    assert free(cache, Tier.DEVICE) == [7, 7, 7]
    assert free(cache, Tier.HOST) == [5, 5, 5]
    assert cache.agreements.count == 2
    serve(cache, a_key([1, 2, 3, 4, 5, 6, 7]))
    assert free(cache, Tier.DEVICE) == [0, 0, 0]
    assert not any(finding for rank in cache.ranks for finding in audit(rank))


@pytest.mark.parametrize("first", [0, 1])
def test_a_copy_has_landed_once_it_has_on_every_rank(cache: RankedCache, first: int):
    ranks, (one, other) = cache.ranks, (first, 1 - first)
    copies = heads(cache, Tier.HOST)
    assert cache.transfers.next_to_acknowledge(Tier.HOST) is None
    ranks[one].transfers.run(copies[one])
    assert [standing(rank, Tier.HOST) for rank in ranks].count(Standing.RAN) == 1
    assert cache.transfers.next_to_acknowledge(Tier.HOST) is None
    ranks[other].transfers.run(copies[other])
    assert cache.transfers.next_to_acknowledge(Tier.HOST) is copies[0]
    cache.acknowledge(copies[0])
    assert [copy.state for copy in copies] == [CopyState.DONE] * 2


@pytest.mark.parametrize("broken", [0, 1])
def test_a_copy_that_breaks_on_one_rank_has_failed_on_all(cache: RankedCache, broken: int):
    copies = heads(cache, Tier.HOST)
    for number, (rank, copy) in enumerate(zip(cache.ranks, copies, strict=True)):
        assert cache.transfers.next_to_acknowledge(Tier.HOST) is None
        if number == broken:
            rank.transfers.break_off(copy)
        else:
            rank.transfers.run(copy)
    assert cache.transfers.next_to_acknowledge(Tier.HOST) is copies[0]
    cache.acknowledge(copies[0])
    assert [copy.state for copy in copies] == [CopyState.FAILED] * 2
    assert free(cache, Tier.HOST) == [8, 8]
    assert not any(finding for rank in cache.ranks for finding in audit(rank))


def test_a_request_waits_for_the_slowest_rank_of_its_load_back(cache: RankedCache):
    land(cache)
    for rank in cache.ranks:
        demote(rank)
    table = admit(cache, a_key([1, 2, 3]))
    (copy,) = table.waits
    cache.ranks[0].transfers.run(copy)
    assert cache.transfers.next_to_acknowledge(Tier.DEVICE) is None
    assert copy.in_flight
    assert land(cache, Tier.DEVICE) == [copy]
    readings = [rank.read(own, 6) for rank, own in cache.each(table)]
    assert readings[0] == readings[1]
    assert readings[0].full == a_key([1, 2, 3]).prints()[:3]


def test_ranks_may_differ_in_slots_and_agree_in_all_else(cache: RankedCache):
    land(cache)
    second = cache.ranks[1].pool(FULL, Tier.DEVICE)
    second._free.reverse()
    serve(cache, a_key([7, 8]))
    trees = [[(n.start, n.end, n.hits) for n in rank.tree.nodes()] for rank in cache.ranks]
    assert trees[0] == trees[1]
    slots = [
        [n.slots[Tier.DEVICE][FULL] for n in rank.tree.nodes() if n.end == 4]
        for rank in cache.ranks
    ]
    assert slots[0] != slots[1]


def test_a_load_back_is_issued_on_every_rank_or_on_none(cache: RankedCache):
    land(cache)
    for rank in cache.ranks:
        demote(rank)
    match = cache.match(a_key([1, 2, 3]))
    admission = cache.lock(match, "admission")
    assert admission is not None
    assert cache.load_back(match, admission).outcome is LoadOutcome.ISSUED
    assert [len(rank.transfers.queues[Tier.DEVICE]) for rank in cache.ranks] == [1, 1]
    cache.unlock(admission)
