"""Copies: bytes move when they run, count when they are acknowledged, and follow splits."""

import pytest

from cache.config import Component, Tier
from cache.contract import Demand
from cache.keys import UNWRITTEN
from cache.transfers import CopyState
from tests.cache.builders import a_cache, a_key, admit, demote, fail, land, node_at, serve

FULL = Component.FULL


def test_nothing_moves_before_the_copy_runs_and_nothing_is_ready_before_it_is_acknowledged():
    cache = a_cache(full=(4, 4))
    serve(cache, a_key([1, 2]))
    node = node_at(cache, [1, 2])
    (copy,) = cache.transfers.queues[Tier.HOST]
    host = cache.pool(FULL, Tier.HOST).store
    (part,) = copy.parts
    assert host.read(part.target) == [UNWRITTEN, UNWRITTEN]
    cache.transfers.run(copy)
    assert host.read(part.target) == cache.tree.prints(node)
    assert not node.ready(Tier.HOST, FULL)
    cache.acknowledge(copy)
    assert node.ready(Tier.HOST, FULL)
    assert copy.state is CopyState.DONE


def test_copies_of_a_direction_run_and_are_acknowledged_in_order():
    cache = a_cache(full=(4, 4))
    serve(cache, a_key([1]))
    serve(cache, a_key([2]))
    first, second = cache.transfers.queues[Tier.HOST]
    with pytest.raises(AssertionError, match="in order"):
        cache.transfers.run(second)
    cache.transfers.run(first)
    cache.transfers.run(second)
    with pytest.raises(AssertionError, match="in order"):
        cache.acknowledge(second)
    cache.acknowledge(first)
    cache.acknowledge(second)


def test_a_copy_that_has_not_run_cannot_be_acknowledged():
    cache = a_cache(full=(4, 4))
    serve(cache, a_key([1]))
    (copy,) = cache.transfers.queues[Tier.HOST]
    assert cache.transfers.next_to_acknowledge(Tier.HOST) is None
    with pytest.raises(AssertionError):
        cache.acknowledge(copy)


def test_a_source_is_neither_freed_nor_rewritten_before_the_acknowledgement():
    cache = a_cache(full=(4, 4))
    serve(cache, a_key([1, 2]))
    (copy,) = cache.transfers.queues[Tier.HOST]
    (part,) = copy.parts
    device = cache.pool(FULL, Tier.DEVICE)
    before = device.store.read(part.source)
    for _ in range(2):
        room = cache.make_room(Demand(4))
        assert room.short == (2,)
        assert device.store.read(part.source) == before
        if copy.state is CopyState.QUEUED:
            cache.transfers.run(copy)
    cache.acknowledge(copy)
    assert cache.make_room(Demand(4)).enough


@pytest.mark.parametrize("pages", [1, 2])
def test_a_backup_follows_a_split_and_lands_on_both_halves(pages):
    cache = a_cache(full=(4, 4))
    serve(cache, a_key([1, 2, 3]))
    (copy,) = cache.transfers.queues[Tier.HOST]
    lower, upper = node_at(cache, [1, 2, 3]), node_at(cache, [1, 2, 3][:pages])
    assert [(part.node, len(part.target)) for part in copy.parts] == [
        (upper, pages),
        (lower, 3 - pages),
    ]
    land(cache)
    for node in (upper, lower):
        assert node.ready(Tier.HOST, FULL)
        slots = node.slots[Tier.HOST][FULL]
        assert cache.pool(FULL, Tier.HOST).store.read(slots) == cache.tree.prints(node)


def test_a_load_back_of_two_components_follows_splits_that_come_between_run_and_acknowledgement():
    cache = a_cache(full=(6, 6), swa=(6, 6), window=6)
    key = a_key([1, 2, 3])
    serve(cache, key)
    land(cache)
    demote(cache)
    table = admit(cache, key)
    node_at(cache, [1, 2])
    cache.transfers.run(table.waits[0])
    node_at(cache, [1])
    land(cache)
    reading = cache.read(table, 6)
    assert reading.full == reading.swa == key.prints()[:3]
    assert table.full == [s for n in cache.tree.nodes() for s in n.slots[Tier.DEVICE][FULL]]


def test_a_broken_copy_gives_its_target_back_and_leaves_everything_as_before():
    cache = a_cache(full=(4, 4))
    serve(cache, a_key([1, 2]))
    node = node_at(cache, [1, 2])
    copy = fail(cache, Tier.HOST)
    assert copy.state is CopyState.FAILED
    assert node.slots[Tier.HOST][FULL] is None
    assert cache.pool(FULL, Tier.HOST).used_slots == 0
    assert node.ready(Tier.DEVICE, FULL)
    assert len(cache.locks) == 0
