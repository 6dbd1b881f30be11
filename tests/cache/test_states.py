"""Recurrent states: copied before they are computed with, kept at boundaries, let go in time."""

import pytest

from cache.audit import audit
from cache.config import MAMBA, Component, Tier, WritePolicy
from cache.contract import Demand, LoadOutcome
from cache.keys import UNWRITTEN, state_print
from cache.locks import NOT_HELD
from cache.unified import UnifiedCache
from tests.cache.builders import a_cache, a_key, admit, compute, fail, land, node_at, serve

DEVICE, HOST = Tier.DEVICE, Tier.HOST


def content(cache: UnifiedCache, slot: int | None) -> int:
    assert slot is not None
    return cache.pool(MAMBA, DEVICE).store.read([slot])[0]


def states_gone(cache: UnifiedCache) -> None:
    cache.make_room(Demand(0, 0, cache.config.pools(MAMBA).device))


def test_a_request_computes_with_a_copy_and_the_tree_keeps_its_own():
    cache = a_cache(mamba=(4, 0))
    serve(cache, a_key([1, 2]))
    node, key = node_at(cache, [1, 2]), a_key([1, 2, 3])
    table = admit(cache, key)
    compute(cache, table, key, 5)
    (shared,) = node.slots[DEVICE][MAMBA] or ()
    assert table.state != shared
    assert content(cache, shared) == key.prints()[1]
    assert content(cache, table.state) == state_print(key.prints(), 5, 2)
    assert cache.read(table, 5).state == content(cache, table.state)
    assert cache.read(table, 4).state == 0, "the state of fewer tokens is gone"


def test_the_state_of_the_hit_is_held_until_it_is_copied_and_no_longer():
    cache = a_cache(mamba=(2, 0))
    serve(cache, a_key([1, 2]))
    node, key = node_at(cache, [1, 2]), a_key([1, 2, 3])
    table = admit(cache, key)
    assert table.lock is not None
    assert node.locks[DEVICE][MAMBA] == 1
    states_gone(cache)
    assert node.ready(DEVICE, MAMBA)
    assert cache.extend(table, 5).enough
    assert table.lock.reach[MAMBA] == NOT_HELD
    assert node.locks[DEVICE] == [1, 0, 0]


def test_of_two_slots_the_second_is_a_wish_and_gives_way_to_a_request_that_cannot_begin():
    cache = a_cache(mamba=(2, 0))
    first, second = admit(cache, a_key([1])), admit(cache, a_key([2]))
    assert cache.extend(first, 3).enough
    assert (first.state is None, first.kept is None) == (False, False)
    assert cache.extend(second, 3).enough
    assert first.kept is second.kept is None
    third = admit(cache, a_key([3]))
    assert not cache.extend(third, 3).enough, "both are somebody's own"
    assert (third.full, third.state) == ([], None)
    cache.abort(first)
    assert cache.extend(third, 3).enough


def test_a_chunk_that_ends_within_a_page_leaves_the_state_of_its_last_boundary():
    cache, key = a_cache(mamba=(4, 0)), a_key([1, 2], tail=2)
    table = admit(cache, key)
    compute(cache, table, key, 3)
    assert content(cache, table.kept) == key.prints()[0]
    cache.commit(table, key)
    assert cache.match(a_key([1, 2])).device_tokens == 2
    assert table.kept is None
    assert content(cache, table.state) == state_print(key.prints(), 3, 2)


def test_a_request_that_ends_on_a_page_gives_the_state_that_it_computed_with():
    cache, key = a_cache(mamba=(2, 0)), a_key([1, 2])
    table = admit(cache, key)
    compute(cache, table, key, 4)
    own = table.state
    cache.finish(table, key)
    assert node_at(cache, [1, 2]).slots[DEVICE][MAMBA] == [own]
    assert cache.pool(MAMBA, DEVICE).free_slots == 1


def test_a_state_that_the_tree_has_already_is_freed():
    cache, key = a_cache(mamba=(6, 0)), a_key([1, 2])
    tables = [admit(cache, key, name) for name in "ab"]
    for table in tables:
        compute(cache, table, key, 4)
        cache.finish(table, key)
    assert cache.pool(MAMBA, DEVICE).used_slots == 1
    assert audit(cache) == []


def test_half_of_a_node_has_no_state_until_somebody_ends_a_chunk_there():
    cache, key = a_cache(mamba=(6, 0)), a_key([1, 2, 3])
    serve(cache, key)
    assert cache.match(a_key([1, 9])).device_tokens == 0
    upper, lower = node_at(cache, [1]), node_at(cache, [1, 2, 3])
    assert upper.slots[DEVICE][MAMBA] is None
    assert lower.ready(DEVICE, MAMBA)
    serve(cache, a_key([1]))
    assert upper.ready(DEVICE, MAMBA)
    assert cache.match(a_key([1, 9])).device_tokens == 2


def test_a_leaf_whose_state_goes_goes_whole_and_an_inner_node_keeps_its_pages():
    cache = a_cache(mamba=(4, 0))
    serve(cache, a_key([1]))
    serve(cache, a_key([1, 2]))
    inner = node_at(cache, [1])
    cache.make_room(Demand(0, 0, 3))
    assert inner.slots[DEVICE][MAMBA] is None
    assert inner.slots[DEVICE][Component.FULL] is not None
    assert cache.match(a_key([1, 2])).device_tokens == 4
    states_gone(cache)
    assert list(cache.tree.nodes()) == []


@pytest.mark.parametrize("policy", WritePolicy)
def test_a_state_on_the_host_is_loaded_back_alone(policy):
    cache, key = a_cache(full=(8, 8), mamba=(2, 3), policy=policy), a_key([1, 2])
    for _ in range(2):
        serve(cache, key)
        land(cache)
    node = node_at(cache, [1, 2])
    cache.backups.back_up(node)
    land(cache)
    states_gone(cache)
    match = cache.match(key)
    assert (match.device_tokens, match.loadable_tokens, match.load_pages) == (0, 4, (0, 0, 1))
    table = admit(cache, key)
    assert [part.component for part in table.waits[0].parts] == [MAMBA]
    assert cache.extend(table, 5).enough
    assert content(cache, table.state) == UNWRITTEN, "it has not landed"
    land(cache)
    assert content(cache, table.state) == key.prints()[1]


def test_a_load_back_of_a_state_that_fails_leaves_everything_as_before():
    cache, key = a_cache(full=(8, 8), mamba=(3, 3)), a_key([1, 2])
    serve(cache, key)
    land(cache)
    states_gone(cache)
    table = admit(cache, key)
    assert cache.extend(table, 5).enough
    fail(cache, DEVICE)
    assert not table.forked
    cache.abort(table)
    assert cache.pool(MAMBA, DEVICE).free_slots == 3
    assert cache.match(key).loadable_tokens == 4
    assert audit(cache) == []


def test_without_a_slot_for_its_state_nothing_is_loaded_and_nothing_is_lost():
    cache, key = a_cache(full=(12, 12), mamba=(2, 3)), a_key([1, 2])
    serve(cache, key)
    land(cache)
    states_gone(cache)
    others = [admit(cache, a_key([number]), str(number)) for number in (7, 8)]
    assert all(cache.extend(other, 1).enough for other in others)
    match = cache.match(key)
    admission = cache.lock(match, "admission")
    assert admission is not None
    assert cache.load_back(match, admission).outcome is LoadOutcome.NO_ROOM
    table = cache.settle(match, admission, "request")
    cache.unlock(admission)
    assert table.hit_tokens == 0
    assert node_at(cache, [1, 2]).ready(HOST, MAMBA)


def test_the_only_copy_of_a_state_is_backed_up_where_its_prefix_is_on_the_host():
    cache = a_cache(full=(8, 8), mamba=(3, 3))
    serve(cache, a_key([1]))
    land(cache)
    serve(cache, a_key([1, 2]))
    land(cache)
    inner = node_at(cache, [1])
    cache.residency.drop(inner, HOST, MAMBA)
    cache.make_room(Demand(0, 0, 3))
    assert inner.leaving == (MAMBA,)
    land(cache)
    assert inner.ready(HOST, MAMBA)
    assert inner.slots[DEVICE][MAMBA] is None


def test_what_begins_wrong_stays_wrong():
    cache, key = a_cache(mamba=(4, 0)), a_key([1, 2, 3])
    table = admit(cache, key)
    compute(cache, table, key, 3)
    assert table.state is not None
    cache.pool(MAMBA, DEVICE).store.write([table.state], [12345])
    compute(cache, table, key, 6)
    assert content(cache, table.state) != key.prints()[2]
    assert content(cache, table.kept) != key.prints()[2]
