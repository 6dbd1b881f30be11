"""Prefetch: what storage has comes to the host, below a node that cannot lose its copy."""

import pytest

from cache.audit import audit
from cache.config import Component, PrefetchPolicy, Tier, WritePolicy
from cache.storage.memory import MemoryStorage
from cache.storage_moves import Outcome, PrefetchState
from tests.cache.builders import a_key, admit, demote, land, node_at, serve
from tests.cache.storage_builders import IDENTITY, ROOMY, fetch, reply, with_storage

FULL, SWA, MAMBA = Component
HOST = Tier.HOST


def warm_storage(*paths, **settings):
    """A storage that another server of the same kind has filled with these paths."""
    backend = MemoryStorage(IDENTITY, ROOMY)
    cache = with_storage(backend=backend, **{"full": (16, 16), **settings})
    for path in paths:
        serve(cache, a_key(path))
        land(cache)
        reply(cache)
    assert audit(cache) == []
    return backend


def clean(cache):
    assert audit(cache) == []
    assert len(cache.storage) == 0
    assert len(cache.locks) == len(cache.tables)
    return cache.flush()


def test_what_another_server_stored_is_brought_to_the_host_and_served():
    cache = with_storage(backend=warm_storage([1, 2, 3]))
    prefetch = fetch(cache, a_key([1, 2, 3, 4]))
    assert prefetch.outcome is Outcome.COMPLETE
    assert prefetch.grafted_end == 6
    assert cache.match(a_key([1, 2, 3, 4])).loadable_tokens == 6
    table = admit(cache, a_key([1, 2, 3, 4]))
    land(cache)
    assert cache.read(table, 6).full == a_key([1, 2, 3]).prints()[:3]
    cache.abort(table)
    assert clean(cache)


def test_what_is_not_in_the_tree_is_fetched_and_no_more():
    cache = with_storage(backend=warm_storage([1, 2, 3, 4]))
    serve(cache, a_key([1, 2]))
    land(cache)
    reply(cache)
    prefetch = fetch(cache, a_key([1, 2, 3, 4]))
    assert [wanted.page for wanted in prefetch.wanted] == [2, 3]
    assert node_at(cache, [1, 2, 3, 4]).parent is node_at(cache, [1, 2])


def test_a_prefetch_ends_where_storage_does():
    cache = with_storage(backend=warm_storage([1, 2]))
    assert fetch(cache, a_key([1, 2, 7])).grafted_end == 4
    assert fetch(cache, a_key([5, 6])).outcome is Outcome.NOTHING
    assert clean(cache)


def test_too_little_is_not_worth_asking_for():
    cache = with_storage(backend=warm_storage([1, 2, 3]), prefetch_threshold=6)
    short = cache.storage.prefetch(a_key([1, 2]), "r")
    assert (short.over, short.outcome) == (True, Outcome.TOO_SHORT)
    assert len(cache.locks) == 0
    assert fetch(cache, a_key([1, 2, 9])).outcome is Outcome.TOO_SHORT  # found too little
    assert fetch(cache, a_key([1, 2, 3])).outcome is Outcome.COMPLETE


def test_a_namespace_has_pages_of_its_own():
    cache = with_storage(backend=warm_storage([1, 2]))
    assert fetch(cache, a_key([1, 2], namespace="other")).outcome is Outcome.NOTHING


def test_another_identity_finds_nothing():
    backend = warm_storage([1, 2])
    cache = with_storage(backend=backend)
    cache.storage._identity = bytes(16)
    assert fetch(cache, a_key([1, 2])).outcome is Outcome.NOTHING


def test_host_room_is_made_for_what_is_there_and_not_for_what_is_asked():
    cache = with_storage(backend=warm_storage([1, 2]), full=(8, 4))
    serve(cache, a_key([7, 8]))
    land(cache)
    fetch(cache, a_key([1, 2, 3, 4, 5]))
    assert node_at(cache, [7, 8]).ready(HOST, FULL)
    assert clean(cache)


def test_without_host_room_nothing_is_given_up():
    cache = with_storage(backend=warm_storage([1, 2, 3]), full=(8, 2))
    assert fetch(cache, a_key([1, 2, 3])).outcome is Outcome.NO_ROOM
    assert clean(cache)


def test_the_anchor_cannot_lose_its_host_copy_meanwhile():
    cache = with_storage(backend=warm_storage([1, 2, 3]), full=(8, 3))
    serve(cache, a_key([1]))
    land(cache)
    demote(cache)
    prefetch = cache.storage.prefetch(a_key([1, 2, 3]), "r")
    assert prefetch.anchor is node_at(cache, [1])
    serve(cache, a_key([7, 8, 9]))  # whose backup would need all of the host
    land(cache)
    assert node_at(cache, [1]).ready(HOST, FULL)
    reply(cache)
    assert prefetch.outcome is Outcome.COMPLETE
    assert clean(cache)


def test_nothing_is_hung_below_a_node_without_a_host_copy():
    cache = with_storage(backend=warm_storage([1, 2]), policy=WritePolicy.WRITE_THROUGH_SELECTIVE)
    serve(cache, a_key([1]))
    prefetch = cache.storage.prefetch(a_key([1, 2]), "r")
    assert (prefetch.over, prefetch.outcome) == (True, Outcome.NO_ANCHOR)
    assert clean(cache)


def test_under_write_back_the_device_copy_will_do_and_is_held():
    cache = with_storage(backend=warm_storage([1, 2]), policy=WritePolicy.WRITE_BACK)
    serve(cache, a_key([1]))
    prefetch = cache.storage.prefetch(a_key([1, 2]), "r")
    demote(cache)
    assert node_at(cache, [1]).ready(Tier.DEVICE, FULL)
    reply(cache)
    assert prefetch.outcome is Outcome.COMPLETE
    assert cache.match(a_key([1, 2])).loadable_tokens == 4
    land(cache)
    assert clean(cache)


def test_what_somebody_computed_meanwhile_is_not_kept_twice():
    cache = with_storage(backend=warm_storage([1, 2, 3]))
    prefetch = cache.storage.prefetch(a_key([1, 2, 3]), "r")
    for _ in range(2):
        cache.storage.run(prefetch)
        if prefetch.phase is PrefetchState.ANSWERED:
            cache.storage.acknowledge(prefetch)
    serve(cache, a_key([1, 2]))
    land(cache)
    reply(cache)
    assert prefetch.outcome is Outcome.COMPLETE
    assert cache.pool(FULL, HOST).used_slots == 3
    assert clean(cache)


def test_a_node_without_a_host_copy_takes_the_one_that_came():
    cache = with_storage(
        backend=warm_storage([1, 2, 3]), policy=WritePolicy.WRITE_THROUGH_SELECTIVE
    )
    prefetch = cache.storage.prefetch(a_key([1, 2, 3]), "r")
    serve(cache, a_key([1, 2]))
    reply(cache)
    assert prefetch.outcome is Outcome.COMPLETE
    assert node_at(cache, [1, 2]).ready(HOST, FULL)
    assert clean(cache)


def test_nothing_goes_below_a_node_that_a_copy_is_filling():
    cache = with_storage(backend=warm_storage([1, 2, 3]))
    prefetch = cache.storage.prefetch(a_key([1, 2, 3]), "r")
    serve(cache, a_key([1, 2]))  # its backup is under way
    storage = cache.storage
    while not prefetch.over:
        for move in [m for m in storage.outstanding() if m is prefetch]:
            storage.run(move)
        for move in [m for m in storage.replied() if m is prefetch]:
            storage.acknowledge(move)
    assert prefetch.grafted_end == 0
    land(cache)
    reply(cache)
    assert clean(cache)


# -- policies ---------------------------------------------------------------------------------


def test_best_effort_takes_what_has_landed_and_waits_for_nothing():
    cache = with_storage(
        backend=warm_storage([1, 2, 3, 4, 5]), prefetch_policy=PrefetchPolicy.BEST_EFFORT
    )
    storage = cache.storage
    prefetch = storage.prefetch(a_key([1, 2, 3, 4, 5]), "r")
    assert storage.may_go_on(prefetch, 0.0)
    storage.run(prefetch)
    storage.acknowledge(prefetch)
    storage.run(prefetch)
    storage.conclude(prefetch)
    assert prefetch.grafted_end == 4
    assert cache.match(a_key([1, 2, 3, 4, 5])).loadable_tokens == 4
    # The batch under way keeps its two slots, and nothing else is held for it.
    assert (len(cache.locks), cache.pool(FULL, HOST).used_slots) == (0, 4)
    assert audit(cache) == []
    storage.run(prefetch)
    storage.acknowledge(prefetch)
    assert prefetch.outcome is Outcome.PARTIAL
    assert cache.pool(FULL, HOST).used_slots == 2
    assert clean(cache)


def test_wait_complete_waits_until_it_is_over():
    cache = with_storage(backend=warm_storage([1, 2]))
    prefetch = cache.storage.prefetch(a_key([1, 2]), "r")
    assert not cache.storage.may_go_on(prefetch, 1e9)
    reply(cache)
    assert cache.storage.may_go_on(prefetch, 0.0)


def test_timeout_waits_longer_for_more():
    cache = with_storage(backend=warm_storage([1, 2]), prefetch_policy=PrefetchPolicy.TIMEOUT)
    storage = cache.storage
    one, two = storage.prefetch(a_key([1]), "r"), storage.prefetch(a_key([1, 2]), "s")
    assert storage.prefetches.timeout_s(one) == pytest.approx(1 + 0.25 * 2 / 1024)
    assert storage.prefetches.timeout_s(two) == pytest.approx(1 + 0.25 * 4 / 1024)
    assert not storage.may_go_on(two, 1.0)
    assert storage.may_go_on(two, 1.001)


@pytest.mark.parametrize("replies", range(6))
@pytest.mark.parametrize("how", ["conclude", "cancel"])
def test_ending_it_at_any_moment_leaves_nothing_held(how, replies):
    cache = with_storage(backend=warm_storage([1, 2, 3, 4]))
    storage = cache.storage
    prefetch = storage.prefetch(a_key([1, 2, 3, 4]), "r")
    for step in range(replies):
        if prefetch.outstanding:
            storage.run(prefetch)
        elif not prefetch.over and step < replies - 1:
            storage.acknowledge(prefetch)
    getattr(storage, how)(prefetch)
    getattr(storage, how)(prefetch)  # twice is once
    assert audit(cache) == []
    assert len(cache.locks) == 0
    reply(cache)
    assert prefetch.over
    if how == "cancel":
        assert cache.pool(FULL, HOST).used_slots == prefetch.grafted_end // 2
    assert clean(cache)


# -- what storage may do ------------------------------------------------------------------------


def test_a_torn_page_ends_the_prefetch_above_it():
    backend = warm_storage([1, 2, 3, 4])
    cache = with_storage(backend=backend)
    name = cache.storage.name_of(FULL, a_key([1, 2, 3]).prints()[2])
    backend.blobs[name] = backend.blobs[name][:-1] + b"?"
    prefetch = fetch(cache, a_key([1, 2, 3, 4]))
    assert (prefetch.outcome, prefetch.grafted_end) == (Outcome.PARTIAL, 4)
    assert audit(cache) == []
    assert fetch(cache, a_key([1, 2, 3, 4])).outcome is Outcome.NOTHING  # it has been removed
    assert clean(cache)


# -- windows ------------------------------------------------------------------------------------

WINDOWED = {"swa": (16, 16), "window": 4}


def test_a_window_comes_with_the_prefix_that_needs_it():
    cache = with_storage(backend=warm_storage([1, 2, 3, 4], **WINDOWED), **WINDOWED)
    prefetch = fetch(cache, a_key([1, 2, 3, 4]))
    assert prefetch.outcome is Outcome.COMPLETE
    wanted = {c: [w.page for w in prefetch.wanted if w.component is c] for c in (FULL, SWA)}
    assert wanted == {FULL: [0, 1, 2, 3], SWA: [2, 3]}
    assert cache.match(a_key([1, 2, 3, 4])).loadable_tokens == 8
    table = admit(cache, a_key([1, 2, 3, 4]))
    land(cache)
    assert cache.read(table, 8).swa == a_key([1, 2, 3, 4]).prints()[2:4]
    cache.abort(table)
    assert clean(cache)


def test_no_further_is_fetched_than_the_window_reaches():
    backend = warm_storage([1, 2, 3, 4], **WINDOWED)
    cache = with_storage(backend=backend, **WINDOWED)
    prints = a_key([1, 2, 3, 4]).prints()
    backend.remove([cache.storage.name_of(SWA, prints[3])])
    assert fetch(cache, a_key([1, 2, 3, 4])).grafted_end == 6
    assert clean(cache)


# -- recurrent states ---------------------------------------------------------------------------

STATEFUL = {"mamba": (4, 4)}


def test_a_state_comes_with_the_last_page_of_its_run_and_can_be_gone_on_from():
    cache = with_storage(backend=warm_storage([1, 2, 3], **STATEFUL), **STATEFUL)
    prefetch = fetch(cache, a_key([1, 2, 3]))
    assert [(w.component, w.page) for w in prefetch.wanted][-2:] == [(FULL, 2), (MAMBA, 2)]
    assert prefetch.outcome is Outcome.COMPLETE
    assert len(prefetch.wanted) == 4
    table = admit(cache, a_key([1, 2, 3]))
    assert cache.extend(table, 7).enough
    land(cache)
    assert cache.read(table, 6).state == a_key([1, 2, 3]).prints()[2]
    cache.abort(table)
    assert clean(cache)


def test_no_further_is_fetched_than_a_state_reaches():
    backend = warm_storage([1, 2], [1, 2, 3, 4], **STATEFUL)
    cache = with_storage(backend=backend, **STATEFUL)
    prints = a_key([1, 2, 3, 4]).prints()
    backend.remove([cache.storage.name_of(MAMBA, prints[3])])
    assert fetch(cache, a_key([1, 2, 3, 4])).grafted_end == 4
    assert clean(cache)


def test_a_run_whose_state_has_not_come_is_not_put_into_the_tree():
    cache = with_storage(
        backend=warm_storage([1, 2, 3], **STATEFUL),
        prefetch_policy=PrefetchPolicy.BEST_EFFORT,
        **STATEFUL,
    )
    storage = cache.storage
    prefetch = storage.prefetch(a_key([1, 2, 3]), "r")
    storage.run(prefetch)
    storage.acknowledge(prefetch)
    storage.run(prefetch)
    assert prefetch.arrived == 2
    storage.conclude(prefetch)
    assert list(cache.tree.nodes()) == []
    reply(cache)
    assert clean(cache)


def test_a_node_that_has_no_state_takes_the_one_that_came():
    cache = with_storage(backend=warm_storage([1, 2, 3], **STATEFUL), **STATEFUL)
    prefetch = cache.storage.prefetch(a_key([1, 2, 3]), "r")
    serve(cache, a_key([1, 2, 3]))
    land(cache)
    node = node_at(cache, [1, 2, 3])
    cache.residency.drop(node, HOST, MAMBA)
    reply(cache)
    assert prefetch.outcome is Outcome.COMPLETE
    assert node.ready(HOST, MAMBA)
    assert clean(cache)
