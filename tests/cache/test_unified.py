"""The reference cache keeps the contract, with a host tier and without, and what it adds to it."""

import pytest

from cache.audit import audit
from cache.config import CacheConfig, Component, Tier, WritePolicy
from cache.contract import Demand
from cache.unified import UnifiedCache
from tests.cache.builders import (
    a_cache,
    a_config,
    a_key,
    admit,
    compute,
    demote,
    land,
    node_at,
    serve,
)
from tests.cache.contract_suite import CacheContract

FULL, SWA = Component.FULL, Component.SWA


class TestUnifiedCache(CacheContract):
    def build(self, config: CacheConfig) -> UnifiedCache:
        return UnifiedCache(config)


class TestUnifiedCacheWithAHost(CacheContract):
    def build(self, config: CacheConfig) -> UnifiedCache:
        page, window = config.page_size, config.window
        swa = (5, 5) if window else None
        return UnifiedCache(a_config(page=page, full=(8, 8), swa=swa, window=window))


class TestUnifiedCacheWritingBack(CacheContract):
    def build(self, config: CacheConfig) -> UnifiedCache:
        page, window = config.page_size, config.window
        swa = (5, 5) if window else None
        back = WritePolicy.WRITE_BACK
        return UnifiedCache(a_config(page=page, full=(8, 8), swa=swa, window=window, policy=back))


def test_a_finished_request_serves_the_next_one():
    cache = a_cache()
    serve(cache, a_key([1, 2, 3]))
    table = admit(cache, a_key([1, 2, 9]))
    assert (table.device_tokens, table.host_tokens, table.written) == (4, 0, 4)


def test_a_running_request_serves_others_from_what_it_has_committed():
    cache = a_cache()
    key = a_key([1, 2, 3])
    first = admit(cache, key, "first")
    compute(cache, first, key, 4)
    assert cache.match(key).device_tokens == 0
    cache.commit(first, key)
    second = admit(cache, key, "second")
    assert second.full == first.full
    cache.abort(first)
    assert cache.read(second, 4).full == key.prints()[:2]


def test_an_anchor_that_has_left_the_tree_cannot_be_locked():
    cache = a_cache()
    serve(cache, a_key([1, 2]))
    match = cache.match(a_key([1, 2]))
    demote(cache)
    assert cache.lock(match, "r.admission") is None
    assert cache.lock(cache.match(a_key([1, 2])), "r.admission") is not None


def test_an_anchor_that_was_cut_meanwhile_is_locked_whole():
    cache = a_cache()
    serve(cache, a_key([1, 2, 3]))
    match = cache.match(a_key([1, 2, 3]))
    cache.match(a_key([1, 9]))
    lock = cache.lock(match, "r.admission")
    demote(cache)
    assert cache.match(a_key([1, 2, 3])).device_tokens == 6
    assert lock is not None
    cache.unlock(lock)


def test_a_prefix_that_shrank_between_match_and_lock_is_settled_as_it_is_now():
    cache = a_cache(full=(8, 0), swa=(4, 0), window=2)
    serve(cache, a_key([1]))
    serve(cache, a_key([1, 2]))
    match = cache.match(a_key([1, 2]))
    cache.residency.drop(match.anchor, Tier.DEVICE, SWA)
    lock = cache.lock(match, "r.admission")
    assert lock is not None
    table = cache.settle(match, lock, "r")
    assert (match.device_tokens, table.hit_tokens) == (4, 2)


def test_a_prefix_that_grew_between_match_and_settle_is_not_given_to_whom_did_not_ask_for_it():
    cache = a_cache()
    serve(cache, a_key([1]))
    match = cache.match(a_key([1, 2]))
    lock = cache.lock(match, "r.admission")
    assert lock is not None
    serve(cache, a_key([1, 2]))
    assert cache.settle(match, lock, "r").hit_tokens == 2


def test_a_commit_keeps_the_request_locked_over_what_it_has_put_in():
    cache = a_cache(full=(4, 0))
    key = a_key([1, 2, 3])
    table = admit(cache, key)
    for tokens in (2, 4, 6):
        compute(cache, table, key, tokens)
        cache.commit(table, key)
        cache.make_room(Demand(4))
        assert cache.read(table, tokens).full == key.prints()[: tokens // 2]
    assert len(list(cache.locks.live())) == 1


def test_a_window_that_decode_has_left_may_be_evicted_under_the_running_request():
    cache = a_cache(full=(8, 0), swa=(4, 0), window=2)
    key = a_key([1, 2, 3])
    table = admit(cache, key)
    compute(cache, table, key, 2)
    cache.commit(table, key)
    compute(cache, table, key, 6)
    assert cache.available(SWA) == 1
    cache.slide(table, 6)
    assert cache.make_room(Demand(0, 3)).enough
    assert node_at(cache, [1]).slots[Tier.DEVICE][SWA] is None
    assert cache.read(table, 6).swa == key.prints()[2:3]
    cache.finish(table, key)
    assert cache.match(key).device_tokens == 6


def test_a_lock_over_a_long_node_keeps_no_more_than_its_window_when_slots_are_short():
    cache = a_cache(full=(8, 0), swa=(4, 0), window=2)
    serve(cache, a_key([1, 2, 3]))
    reader, key = admit(cache, a_key([1, 2, 3]), "reader"), a_key([7, 8, 9])
    writer = admit(cache, key, "writer")
    assert cache.extend(writer, 6).enough, "two of the long node's windows are read by nobody"
    cache.write(writer, key.prints(), 6)
    assert cache.read(reader, 6).swa == a_key([1, 2, 3]).prints()[2:3]
    assert audit(cache) == []
    cache.abort(reader)
    cache.abort(writer)
    assert len(cache.locks) == 0


def test_flush_does_nothing_while_a_copy_is_in_flight():
    cache = a_cache(full=(8, 8))
    serve(cache, a_key([1, 2]))
    assert not cache.flush()
    assert cache.match(a_key([1, 2])).device_tokens == 4
    land(cache)
    assert cache.flush()


@pytest.mark.parametrize("policy", list(WritePolicy))
def test_flush_forgets_both_tiers_whatever_hangs_below_what(policy):
    cache = a_cache(full=(6, 6), swa=(4, 4), window=2, policy=policy)
    for text in ([1, 2], [1, 3], [1, 2], [1]):
        serve(cache, a_key(text))
        land(cache)
    cache.make_room(Demand(5, 3))
    land(cache)
    assert cache.flush()
    assert list(cache.tree.nodes()) == []
    assert all(pool.used_slots == 0 for pool in cache.pools.values())
    assert cache.match(a_key([1, 2])).loadable_tokens == 0
    assert audit(cache) == []


def test_an_abort_while_loading_lets_the_copy_land_for_others():
    cache = a_cache(full=(8, 8))
    serve(cache, a_key([1, 2]))
    land(cache)
    demote(cache)
    cache.abort(admit(cache, a_key([1, 2])))
    land(cache)
    assert cache.match(a_key([1, 2])).device_tokens == 4
    assert len(cache.locks) == 0


def test_a_request_counts_a_use_of_its_whole_path():
    cache = a_cache(full=(8, 0))
    serve(cache, a_key([1]))
    serve(cache, a_key([1, 2]))
    serve(cache, a_key([5]))
    cache.abort(admit(cache, a_key([1, 2])))
    cache.make_room(Demand(6))
    assert cache.match(a_key([1, 2])).device_tokens == 4
    assert cache.match(a_key([5])).device_tokens == 0
