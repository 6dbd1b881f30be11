"""Published events: who follows them knows what is cached where."""

from array import array

import pytest

from cache.config import CacheConfig, Component, PoolPages, Tier, WritePolicy
from cache.contract import Demand
from cache.events import EventLog, Happening, KvEvent
from cache.keys import Key
from cache.unified import UnifiedCache

PAGE = 2
CONFIG = CacheConfig(page_size=PAGE, full=PoolPages(8, 8), write_policy=WritePolicy.WRITE_THROUGH)


def _key(*tokens: int) -> Key:
    return Key(array("i", tokens).tobytes(), PAGE)


def _serve(cache: UnifiedCache, key: Key) -> None:
    match = cache.match(key)
    lock = cache.lock(match, "admission")
    assert lock is not None
    table = cache.settle(match, lock, "R")
    cache.unlock(lock)
    assert cache.extend(table, key.tokens).enough
    cache.write(table, key.prints(), key.tokens)
    cache.finish(table, key)


def _land(cache: UnifiedCache) -> None:
    for tier in Tier:
        while (copy := cache.transfers.next_to_run(tier)) is not None:
            cache.transfers.run(copy)
            cache.acknowledge(copy)


def _logged(keep: int = 100) -> tuple[UnifiedCache, EventLog]:
    log = EventLog(keep=keep)
    cache = UnifiedCache(CONFIG, log)
    log.attach(cache.tree)
    return cache, log


def test_an_insert_is_stored_on_the_device_under_its_fingerprints():
    cache, log = _logged()
    key = _key(1, 2, 3, 4, 5)
    _serve(cache, key)
    prints = tuple(key.prints())
    assert list(log.events) == [KvEvent(Happening.STORED, Tier.DEVICE, Component.FULL, prints, 0)]


def test_a_branch_names_the_page_that_it_follows():
    cache, log = _logged()
    trunk, branch = _key(1, 2, 3, 4), _key(1, 2, 7, 8)
    _serve(cache, trunk)
    _serve(cache, branch)
    event = log.events[-1]
    assert event.prints == (branch.prints()[1],)
    assert event.parent_print == trunk.prints()[0]


def test_a_copy_in_flight_is_no_event_until_it_has_landed():
    cache, log = _logged()
    _serve(cache, _key(1, 2, 3, 4))
    assert {event.tier for event in log.events} == {Tier.DEVICE}
    _land(cache)
    assert log.events[-1].tier is Tier.HOST
    assert log.events[-1].kind is Happening.STORED


def test_a_demotion_is_taken_back_from_the_device_only():
    cache, log = _logged()
    key = _key(1, 2, 3, 4)
    _serve(cache, key)
    _land(cache)
    cache.make_room(Demand(8))
    removed = [event for event in log.events if event.kind is Happening.REMOVED]
    assert removed == [
        KvEvent(Happening.REMOVED, Tier.DEVICE, Component.FULL, tuple(key.prints()), 0)
    ]


def test_events_rebuild_the_tree_through_splits_evictions_and_a_flush():
    there: set[tuple[Tier, int]] = set()

    def follow(event: KvEvent) -> None:
        pages = {(event.tier, page) for page in event.prints}
        if event.kind is Happening.STORED:
            assert there.isdisjoint(pages)
            there.update(pages)
        else:
            assert there >= pages
            there.difference_update(pages)

    log = EventLog(follow)
    cache = UnifiedCache(CONFIG, log)
    log.attach(cache.tree)
    for tokens in ((1, 2, 3, 4, 5, 6), (1, 2, 9, 9), (4, 4, 4, 4), (1, 2, 3, 4, 8, 8)):
        _serve(cache, _key(*tokens))
        _land(cache)
        cache.make_room(Demand(5))
        ready = {
            (tier, page)
            for node in cache.tree.nodes()
            for tier in Tier
            if node.ready(tier, Component.FULL)
            for page in cache.tree.prints(node)
        }
        assert there == ready
    assert cache.flush()
    assert there == set()


def test_a_log_keeps_as_many_as_it_is_told_and_none_by_default():
    cache, log = _logged(keep=1)
    _serve(cache, _key(1, 2))
    _serve(cache, _key(3, 4))
    assert len(log.events) == 1
    assert len(EventLog().events) == 0


def test_a_log_that_was_never_attached_says_so():
    cache = UnifiedCache(CONFIG, EventLog())
    with pytest.raises(AssertionError, match="attach"):
        _serve(cache, _key(1, 2))
