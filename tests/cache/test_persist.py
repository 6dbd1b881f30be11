"""Persist: what the host has goes to storage, heads first, and only what storage lacks."""

from cache.audit import audit
from cache.config import Component, Tier, WritePolicy
from cache.storage.contract import Fetched, Status, Stored
from cache.storage.memory import MemoryStorage
from cache.transfers import CopyState
from tests.cache.builders import a_key, admit, land, node_at, serve
from tests.cache.storage_builders import IDENTITY, ROOMY, fetch, reply, with_storage

FULL, SWA, MAMBA = Component
HOST = Tier.HOST


def names(cache, pages, component=FULL):
    return [cache.storage.name_of(component, p) for p in a_key(pages).prints()[: len(pages)]]


def stored(cache, pages, component=FULL):
    """Which of these pages storage has."""
    return list(cache.storage.backend.has(names(cache, pages, component)).there)


def queue(cache):
    return list(cache.storage.persists.queue)


def test_a_page_goes_to_storage_when_its_backup_has_landed():
    cache = with_storage()
    serve(cache, a_key([1, 2]))
    assert queue(cache) == []
    land(cache)
    assert [p.pages for p in queue(cache)] == [2]
    assert stored(cache, [1, 2]) == [False, False]
    reply(cache)
    assert stored(cache, [1, 2]) == [True, True]
    assert audit(cache) == []


def test_a_head_is_sent_before_its_tail():
    cache = with_storage()
    for pages in ([1], [1, 2], [1, 2, 3]):
        serve(cache, a_key(pages))
    land(cache)
    assert [p.lock.anchor.start for p in queue(cache)] == [0, 2, 4]
    reply(cache)
    assert stored(cache, [1, 2, 3]) == [True] * 3


def test_a_source_is_locked_until_storage_has_replied_and_the_scheduler_knows():
    cache = with_storage(full=(8, 2))
    serve(cache, a_key([1, 2]))
    land(cache)
    (persist,) = queue(cache)
    for _ in range(2):
        serve(cache, a_key([7, 8]))  # whose backup would need those slots
        land(cache)
        assert node_at(cache, [1, 2]).ready(HOST, FULL)
        if persist.outstanding:
            cache.storage.run(persist)
    cache.storage.acknowledge(persist)
    assert persist.state is CopyState.DONE
    assert len(cache.locks) == 0


def test_both_halves_of_a_node_that_was_split_meanwhile_are_known_to_be_stored():
    cache = with_storage()
    serve(cache, a_key([1, 2, 3]))
    land(cache)
    serve(cache, a_key([1, 9]))
    halves = [node_at(cache, [1]), node_at(cache, [1, 2, 3])]
    assert [h.persisting for h in halves] == [1, 1]
    assert audit(cache) == []
    land(cache)
    reply(cache)
    assert [(h.persisted, h.persisting) for h in halves] == [(1, 0), (1, 0)]
    assert stored(cache, [1, 2, 3]) == [True] * 3


def test_what_is_known_to_be_stored_is_not_sent_again():
    cache = with_storage()
    serve(cache, a_key([1, 2]))
    land(cache)
    reply(cache)
    serve(cache, a_key([1, 2]))
    assert queue(cache) == []


def test_what_came_from_storage_is_not_sent_back():
    backend = MemoryStorage(IDENTITY, ROOMY)
    first = with_storage(backend=backend)
    serve(first, a_key([1, 2]))
    land(first)
    reply(first)
    second = with_storage(backend=backend)
    fetch(second, a_key([1, 2]))
    serve(second, a_key([1, 2]))
    land(second)
    assert queue(second) == []


def test_a_failed_persist_is_tried_again_when_its_prefix_is_used():
    cache = with_storage()
    backend = cache.storage.backend
    put, backend.put = backend.put, lambda pages: Stored(0, Status.FAILED)
    serve(cache, a_key([1, 2]))
    land(cache)
    (persist,) = queue(cache)
    reply(cache)
    assert persist.state is CopyState.FAILED
    assert audit(cache) == []
    backend.put = put
    table = admit(cache, a_key([1, 2]))
    reply(cache)
    assert stored(cache, [1, 2]) == [True, True]
    cache.abort(table)


def test_a_head_that_storage_has_lost_is_sent_again_from_the_top():
    cache = with_storage()
    serve(cache, a_key([1, 2]))
    land(cache)
    reply(cache)
    cache.storage.backend.remove(names(cache, [1, 2]))
    serve(cache, a_key([1, 2, 3]))
    land(cache)
    reply(cache)
    assert stored(cache, [1, 2, 3]) == [False] * 3  # refused: its head is gone
    assert node_at(cache, [1, 2]).persisted == 0
    serve(cache, a_key([1, 2, 3]))
    reply(cache)
    assert stored(cache, [1, 2, 3]) == [True] * 3
    assert audit(cache) == []


def test_what_hangs_below_follows_as_soon_as_its_head_is_there():
    cache = with_storage(policy=WritePolicy.WRITE_BACK)
    serve(cache, a_key([1]))
    serve(cache, a_key([1, 2]))
    upper, lower = node_at(cache, [1]), node_at(cache, [1, 2])
    cache.backups.back_up(lower)
    land(cache)
    assert queue(cache) == []  # its head is not even on the host
    cache.backups.back_up(upper)
    land(cache)
    reply(cache)
    assert stored(cache, [1, 2]) == [True, True]


def test_half_of_the_host_at_most_waits_for_storage():
    cache = with_storage(full=(8, 4))
    for page in (1, 2, 3):
        serve(cache, a_key([page]))
        land(cache)
    assert sum(p.pages for p in queue(cache)) == 2
    assert cache.storage.persists.held_back == 1
    reply(cache)
    serve(cache, a_key([3]))
    reply(cache)
    assert stored(cache, [3]) == [True]


def test_a_full_storage_keeps_what_it_has():
    cache = with_storage(backend=MemoryStorage(IDENTITY, 200))
    serve(cache, a_key([1, 2, 3]))
    land(cache)
    (persist,) = queue(cache)
    reply(cache)
    assert (persist.status, persist.stored) == (Status.FULL, 2)
    assert stored(cache, [1, 2, 3]) == [True, True, False]


def test_a_window_goes_below_its_own_page():
    cache = with_storage(swa=(8, 8), window=4)
    serve(cache, a_key([1, 2, 3]))
    land(cache)
    reply(cache)
    assert stored(cache, [1, 2, 3]) == [True] * 3
    assert stored(cache, [1, 2, 3], SWA)[1:] == [True, True]
    index = cache.storage.backend.index
    (full,), (swa,) = names(cache, [1, 2, 3])[2:], names(cache, [1, 2, 3], SWA)[2:]
    assert index.get(swa).head == full


def test_the_bytes_of_two_components_differ():
    cache = with_storage(swa=(8, 8), window=4)
    serve(cache, a_key([1, 2]))
    land(cache)
    reply(cache)
    payloads = [cache.storage.backend.get(names(cache, [1, 2], c)[1:]) for c in (FULL, SWA)]
    assert all(isinstance(p, Fetched) and p.status is Status.OK for p in payloads)
    assert payloads[0].payloads != payloads[1].payloads


def test_a_state_goes_below_the_last_page_of_its_node():
    cache = with_storage(mamba=(4, 4))
    serve(cache, a_key([1, 2, 3]))
    land(cache)
    (persist,) = queue(cache)
    assert persist.pages == 4
    reply(cache)
    assert stored(cache, [1, 2, 3]) == [True] * 3
    assert stored(cache, [1, 2, 3], MAMBA) == [False, False, True]
    index = cache.storage.backend.index
    full, state = names(cache, [1, 2, 3])[2], names(cache, [1, 2, 3], MAMBA)[2]
    assert index.get(state).head == full
    assert cache.flush()


def test_of_a_node_that_is_split_on_its_way_the_lower_half_keeps_the_state():
    cache = with_storage(mamba=(4, 4))
    serve(cache, a_key([1, 2, 3]))
    land(cache)
    lower = node_at(cache, [1, 2, 3])
    cache.match(a_key([1, 9]))
    upper = lower.parent
    assert [upper.persisting >> MAMBA & 1, lower.persisting >> MAMBA & 1] == [0, 1]
    reply(cache)
    assert [upper.persisted, lower.persisted] == [1 << FULL, 1 << FULL | 1 << MAMBA]
    assert stored(cache, [1, 2, 3], MAMBA) == [False, False, True]
    assert audit(cache) == []


def test_a_state_that_an_old_node_is_given_is_sent_after_it():
    cache = with_storage(mamba=(6, 6))
    serve(cache, a_key([1, 2, 3]))
    land(cache)
    reply(cache)
    serve(cache, a_key([1, 2]))
    land(cache)
    reply(cache)
    assert stored(cache, [1, 2, 3], MAMBA) == [False, True, True]
    assert audit(cache) == []
