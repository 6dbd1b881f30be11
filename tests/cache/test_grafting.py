"""Grafts onto nodes that were there: a lost window or state comes back from storage."""

import pytest

from cache.audit import audit
from cache.config import Companion, Component, PrefetchPolicy, Tier, WritePolicy
from cache.contract import Demand
from cache.storage_moves import Outcome
from tests.cache.builders import a_key, admit, land, node_at, serve
from tests.cache.storage_builders import fetch, reply
from tests.cache.test_lacking import lose, served

FULL, SWA, MAMBA = Component
DEVICE, HOST = Tier
WINDOWED = {"swa": (16, 16), "window": 4}
STATEFUL = {"mamba": (6, 6)}
PATH = [1, 2, 3, 4]
KEY = a_key(PATH)


def without_its_window(**settings):
    """[1 2 3 4] has been served, storage has it, and the tree has lost its window."""
    cache = served(PATH, **{**WINDOWED, **settings})
    lose(cache, node_at(cache, PATH), SWA)
    return cache


def begun(cache, replies=0):
    """A prefetch of the key whose slots are reserved, with so many batches come."""
    prefetch = cache.storage.prefetch(KEY, "r")
    cache.storage.run(prefetch)
    cache.storage.acknowledge(prefetch)
    for _ in range(replies):
        cache.storage.run(prefetch)
    return prefetch


def finish(cache, prefetch):
    """Whatever else is under way stays so."""
    while not prefetch.over:
        if prefetch.outstanding:
            cache.storage.run(prefetch)
        else:
            cache.storage.acknowledge(prefetch)


def settled(cache):
    land(cache)
    reply(cache)
    assert audit(cache) == []
    assert len(cache.locks) == len(cache.tables) == 0
    return cache.flush()


def test_a_lost_window_comes_back_and_nothing_else_does():
    cache = without_its_window()
    assert cache.match(KEY).loadable_tokens == 0
    prefetch = fetch(cache, KEY)
    assert [(w.component, w.page) for w in prefetch.wanted] == [(SWA, 2), (SWA, 3)]
    assert (prefetch.start, prefetch.outcome, prefetch.grafted_end) == (0, Outcome.COMPLETE, 8)
    assert cache.match(KEY).loadable_tokens == 8
    table = admit(cache, KEY)
    land(cache)
    reading = cache.read(table, 8)
    assert (reading.full, reading.swa) == (KEY.prints()[:4], KEY.prints()[2:4])
    cache.abort(table)
    assert settled(cache)


def test_a_window_comes_back_on_the_way_to_pages_that_the_tree_never_had():
    cache = served([1, 2, 3, 4, 5], **WINDOWED)
    deep = node_at(cache, [1, 2, 3, 4, 5])
    cache.tree.split(deep, 3)
    for tier in Tier:
        for component in (SWA, FULL):
            cache.residency.drop(deep, tier, component)
    lose(cache, node_at(cache, [1, 2, 3]), SWA)
    prefetch = fetch(cache, a_key([1, 2, 3, 4, 5]))
    wanted = {c: [w.page for w in prefetch.wanted if w.component is c] for c in (FULL, SWA)}
    assert wanted == {FULL: [3, 4], SWA: [3, 4]}
    assert cache.match(a_key([1, 2, 3, 4, 5])).loadable_tokens == 10
    lose(cache, node_at(cache, [1, 2, 3, 4, 5]), SWA)
    assert fetch(cache, a_key([1, 2, 3, 9])).grafted_end == 6
    assert settled(cache)


def test_a_lost_state_comes_back_to_the_end_of_its_node():
    cache = served([1, 2, 3], **STATEFUL)
    node = node_at(cache, [1, 2, 3])
    lose(cache, node, MAMBA)
    prefetch = fetch(cache, a_key([1, 2, 3]))
    assert [(w.component, w.page) for w in prefetch.wanted] == [(MAMBA, 2)]
    assert node.ready(HOST, MAMBA)
    assert node.tokens == 6
    assert cache.match(a_key([1, 2, 3])).loadable_tokens == 6
    assert settled(cache)


def test_a_state_for_a_boundary_inside_a_node_cuts_it_there():
    cache = served([1, 2], **STATEFUL)
    node = node_at(cache, [1, 2])
    lose(cache, node, *cache.config.components[::-1])
    serve(cache, a_key([1, 2, 3]))  # in one piece this time
    land(cache)
    reply(cache)
    lose(cache, node_at(cache, [1, 2, 3]), MAMBA)
    backend = cache.storage.backend
    backend.remove([cache.storage.name_of(MAMBA, a_key([1, 2, 3]).prints()[2])])
    prefetch = fetch(cache, a_key([1, 2, 3]))
    assert prefetch.grafted_end == 4
    assert node_at(cache, [1, 2]).ready(HOST, MAMBA)
    assert node_at(cache, [1, 2, 3]).slots[HOST][MAMBA] is None
    assert settled(cache)


def test_a_node_that_is_split_meanwhile_takes_the_pages_of_each_half():
    cache = without_its_window()
    prefetch = begun(cache, replies=1)
    cache.match(a_key([1, 2, 3, 9]))
    assert node_at(cache, [1, 2, 3]).end == 6
    finish(cache, prefetch)
    assert node_at(cache, [1, 2]).slots[HOST][SWA] is None
    assert node_at(cache, [1, 2, 3]).ready(HOST, SWA)
    assert node_at(cache, PATH).ready(HOST, SWA)
    assert audit(cache) == []  # which compares what every slot holds
    assert settled(cache)


def test_a_window_that_somebody_computed_meanwhile_is_kept_and_the_other_given_back():
    cache = without_its_window()
    prefetch = begun(cache, replies=1)
    serve(cache, KEY)
    land(cache)  # its backup is on the host, too
    node = node_at(cache, PATH)
    slots = node.slots[HOST][SWA]
    finish(cache, prefetch)
    assert node.slots[HOST][SWA] is slots
    assert prefetch.revived == []
    assert settled(cache)


def test_nothing_goes_into_a_node_whose_window_a_backup_brings():
    cache = without_its_window()
    prefetch = begun(cache, replies=1)
    serve(cache, KEY)
    finish(cache, prefetch)
    assert prefetch.revived == []
    assert audit(cache) == []
    assert settled(cache)


def test_the_nodes_that_wait_for_their_window_stay_on_the_host():
    cache = without_its_window(full=(8, 6))
    prefetch = begun(cache)
    cache.make_room(Demand(8, 16))
    serve(cache, a_key([7, 8, 9]))  # which the host has no room for beside them
    land(cache)
    assert node_at(cache, PATH).ready(HOST, FULL)
    finish(cache, prefetch)
    assert prefetch.outcome is Outcome.COMPLETE
    assert cache.match(KEY).loadable_tokens == 8
    assert settled(cache)


def test_what_is_left_of_a_window_is_held_while_the_rest_comes():
    cache = served(PATH, **WINDOWED)
    cache.tree.split(node_at(cache, PATH), 3)
    lose(cache, node_at(cache, PATH), SWA)
    prefetch = begun(cache)
    assert [(w.component, w.page) for w in prefetch.wanted] == [(SWA, 3)]
    assert node_at(cache, [1, 2, 3]).locks[HOST][SWA] == 1
    assert node_at(cache, PATH).locks[HOST][SWA] == 1
    finish(cache, prefetch)
    assert settled(cache)


def test_a_part_of_a_window_stays_where_it_belongs_and_only_the_rest_is_fetched_next_time():
    cache = without_its_window(prefetch_policy=PrefetchPolicy.BEST_EFFORT, batch=1)
    prefetch = begun(cache, replies=1)
    cache.storage.conclude(prefetch)
    reply(cache)
    assert prefetch.grafted_end == 6
    assert cache.match(KEY).loadable_tokens == 0
    again = fetch(cache, KEY)
    assert [(w.component, w.page) for w in again.wanted] == [(SWA, 3)]
    assert cache.match(KEY).loadable_tokens == 8
    assert settled(cache)


@pytest.mark.parametrize("replies", range(3))
def test_a_client_that_leaves_leaves_the_tree_as_it_was(replies):
    cache = without_its_window(batch=1)
    cache.storage.cancel(begun(cache, replies))
    reply(cache)
    assert node_at(cache, PATH).slots[HOST][SWA] is None
    assert cache.pool(SWA, HOST).used_slots == 0
    assert settled(cache)


def test_without_host_room_for_a_window_nothing_is_given_up():
    cache = without_its_window()
    cache.pool(SWA, HOST).limit(1)
    assert fetch(cache, KEY).outcome is Outcome.NO_ROOM
    assert settled(cache)


def test_a_window_that_storage_has_given_up_is_computed_again():
    cache = without_its_window()
    cache.storage.backend.remove([cache.storage.name_of(SWA, KEY.prints()[3])])
    assert fetch(cache, KEY).grafted_end == 6  # the window of the prefix before it is there
    assert cache.match(KEY).loadable_tokens == 6
    assert settled(cache)


def test_what_would_be_gained_is_counted_from_what_the_tree_serves():
    cache = without_its_window(prefetch_threshold=8)
    assert fetch(cache, KEY).outcome is Outcome.COMPLETE
    lose(cache, node_at(cache, PATH), SWA)
    short = a_key([1, 2, 3])
    assert fetch(cache, short).outcome is Outcome.TOO_SHORT
    assert settled(cache)


def test_a_window_whose_pages_the_host_has_not_is_not_asked_for():
    cache = served(PATH, **WINDOWED, policy=WritePolicy.WRITE_THROUGH_SELECTIVE)
    cache.residency.drop(node_at(cache, PATH), DEVICE, SWA)
    prefetch = cache.storage.prefetch(KEY, "r")
    assert (prefetch.over, prefetch.outcome) == (True, Outcome.NO_ANCHOR)
    assert settled(cache)


def test_a_page_of_a_window_counts_only_with_its_companion():
    cache = without_its_window(companions=(Companion("side", SWA, apart=True),))
    number = cache.storage.strands[-1].number
    cache.storage.backend.remove([cache.storage.name_of(number, KEY.prints()[3])])
    assert fetch(cache, KEY).grafted_end == 6
    assert settled(cache)


def test_what_came_from_storage_is_the_last_that_the_host_gives_up():
    cache = without_its_window(full=(16, 16), swa=(16, 6))
    serve(cache, a_key([7, 8, 9]))
    land(cache)
    fetch(cache, KEY)
    assert cache.residency.victims[HOST, SWA].first() is not node_at(cache, PATH)
    assert settled(cache)
