"""Several ranks as one cache: alike in all that they decide, whatever their copies do."""

import pytest

from cache.audit import audit
from cache.config import MAMBA, CacheConfig, Component, Tier, WritePolicy
from cache.contract import Demand, LoadOutcome
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


def shut(cache: RankedCache, rank: int, tier: Tier, component: Component = FULL) -> None:
    cache.ranks[rank].pool(component, tier).open = False


def used(cache: RankedCache, tier: Tier, component: Component = FULL) -> list[int]:
    return [rank.pool(component, tier).used_slots for rank in cache.ranks]


every_rank = pytest.mark.parametrize("rank", [0, 1])


@every_rank
@pytest.mark.parametrize("component", [FULL, Component.SWA])
def test_a_host_that_is_shut_on_one_rank_backs_up_on_none(rank: int, component: Component):
    cache = two_ranks(a_config(full=(8, 8), swa=(4, 4), window=2))
    shut(cache, rank, Tier.HOST, component)
    serve(cache, a_key([1, 2, 3]))
    assert used(cache, Tier.HOST) == [0, 0]
    cache.ranks[rank].pool(component, Tier.HOST).open = True
    serve(cache, a_key([1, 2, 3, 4]))
    assert used(cache, Tier.HOST) == [4, 4]
    assert not any(finding for each in cache.ranks for finding in audit(each))


@every_rank
def test_under_write_back_a_victim_that_one_host_refuses_is_dropped_on_all(rank: int):
    cache = two_ranks(a_config(full=(4, 4), policy=WritePolicy.WRITE_BACK))
    serve(cache, a_key([1, 2]))
    shut(cache, rank, Tier.HOST)
    assert cache.make_room(Demand(4)).enough
    assert used(cache, Tier.DEVICE) == used(cache, Tier.HOST) == [0, 0]


@every_rank
def test_a_load_back_that_one_device_refuses_is_issued_on_none(cache: RankedCache, rank: int):
    land(cache)
    for each in cache.ranks:
        demote(each)
    shut(cache, rank, Tier.DEVICE)
    match = cache.match(a_key([1, 2, 3]))
    admission = cache.lock(match, "admission")
    assert admission is not None
    assert cache.load_back(match, admission).outcome is LoadOutcome.NO_ROOM
    cache.unlock(admission)
    assert used(cache, Tier.DEVICE) == [0, 0]
    assert not any(len(each.transfers) for each in cache.ranks)


@every_rank
def test_pages_that_one_device_refuses_are_given_on_none_and_nothing_is_evicted(
    cache: RankedCache, rank: int
):
    land(cache)
    table = admit(cache, a_key([7, 8, 9, 10, 11, 12]))
    before = used(cache, Tier.DEVICE)
    shut(cache, rank, Tier.DEVICE)
    assert cache.extend(table, 12).short == (6, 0)
    assert used(cache, Tier.DEVICE) == before == [3, 3]
    cache.ranks[rank].pool(FULL, Tier.DEVICE).open = True
    assert cache.extend(table, 8).enough
    assert used(cache, Tier.DEVICE)[0] == used(cache, Tier.DEVICE)[1]


@every_rank
def test_a_request_begins_with_a_state_of_its_own_on_every_rank_or_on_none(rank: int):
    cache = two_ranks(a_config(full=(8, 8), mamba=(4, 4)))
    serve(cache, a_key([1, 2]))
    land(cache)
    table = admit(cache, a_key([1, 2, 3]))
    before = used(cache, Tier.DEVICE, MAMBA)
    shut(cache, rank, Tier.DEVICE, MAMBA)
    assert cache.extend(table, 6).short == (0, 0, 1)
    assert used(cache, Tier.DEVICE, MAMBA) == before
    cache.ranks[rank].pool(MAMBA, Tier.DEVICE).open = True
    assert cache.extend(table, 6).enough
    assert [own.state is not None for _, own in cache.each(table)] == [True, True]
    assert used(cache, Tier.DEVICE, MAMBA) == [before[0] + 2] * 2


def test_one_agreement_on_room_holds_for_a_turn():
    cache = two_ranks(a_config(full=(8, 8)))
    cache.begin_turn()
    before = cache.agreed
    serve(cache, a_key([1, 2]))
    assert cache.agreed == before + 1
    shut(cache, 1, Tier.DEVICE)
    assert cache.make_room(Demand(1)).enough, "what was promised is given"
    cache.begin_turn()
    assert cache.make_room(Demand(1)).short == (1,)
    assert cache.make_room(Demand(2)).short == (2,)
    assert cache.agreed == before + 2


def test_what_a_shut_pool_gave_before_stays_given(cache: RankedCache):
    land(cache)
    table = admit(cache, a_key([7, 8]))
    assert cache.extend(table, 4).enough
    shut(cache, 1, Tier.DEVICE)
    assert cache.extend(table, 4).enough, "nothing more is wanted"
    cache.write(table, a_key([7, 8]).prints(), 4)
    assert cache.commit(table, a_key([7, 8])).adopted == 2
    cache.finish(table, a_key([7, 8]))


def test_a_cache_of_one_rank_takes_nothing_from_a_pool_that_is_shut():
    cache = UnifiedCache(a_config(full=(4, 4)))
    cache.pool(FULL, Tier.DEVICE).open = False
    assert cache.make_room(Demand(2)).short == (2,)
    cache.pool(FULL, Tier.DEVICE).open = True
    assert cache.make_room(Demand(2)).enough


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
