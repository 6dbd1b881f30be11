"""Residency: slots, owners, map, ledgers and victim lists change together or not at all."""

import pytest

from cache.audit import audit
from cache.config import Component, Tier
from cache.contract import Demand
from cache.unified import UnifiedCache
from tests.cache.brute import resident_pages
from tests.cache.builders import a_cache, a_key, admit, demote, fail, land, node_at, serve

FULL, SWA = Component.FULL, Component.SWA


def two_tiers() -> UnifiedCache:
    """[1 2] on both tiers, with its windows."""
    cache = a_cache(full=(8, 8), swa=(8, 8), window=4)
    serve(cache, a_key([1, 2]))
    land(cache)
    return cache


def test_a_node_leaves_the_tree_with_its_last_full_pages_and_not_before():
    cache = two_tiers()
    node = node_at(cache, [1, 2])
    cache.residency.drop(node, Tier.HOST, SWA)
    cache.residency.drop(node, Tier.HOST, FULL)
    assert node.attached
    cache.residency.drop(node, Tier.DEVICE, SWA)
    cache.residency.drop(node, Tier.DEVICE, FULL)
    assert not node.attached
    assert all(pool.used_slots == 0 for pool in cache.pools.values())
    assert audit(cache) == []


def test_full_pages_cannot_leave_the_device_from_under_their_window():
    cache = two_tiers()
    with pytest.raises(AssertionError, match="cascade"):
        cache.residency.drop(node_at(cache, [1, 2]), Tier.DEVICE, FULL)


def test_a_copy_that_fails_leaves_no_trace():
    cache = two_tiers()
    demote(cache)
    before = resident_pages(cache), dict(cache.residency.held_pages), cache.residency.map.entries()
    table = admit(cache, a_key([1, 2]))
    assert cache.pool(FULL, Tier.DEVICE).used_slots == 2
    fail(cache, Tier.DEVICE)
    cache.abort(table)
    after = resident_pages(cache), dict(cache.residency.held_pages), cache.residency.map.entries()
    assert after == before
    assert audit(cache) == []


def test_a_tombstone_keeps_no_entry_in_the_map_whose_slot_somebody_else_gets():
    cache = a_cache(full=(8, 0), swa=(4, 0), window=2)
    serve(cache, a_key([1, 2]))
    serve(cache, a_key([1, 3]))
    cache.make_room(Demand(0, 3))  # the older leaf goes, then the window of what both share
    tombstone = node_at(cache, [1])
    assert cache.residency.map.lookup(tombstone.slots[Tier.DEVICE][FULL] or []) == [-1]
    serve(cache, a_key([7, 8]))
    assert audit(cache) == []


def test_a_window_moved_to_the_trees_pages_is_found_by_the_trees_slots():
    cache = a_cache(full=(8, 0), swa=(4, 0), window=2)
    serve(cache, a_key([1, 2]))
    serve(cache, a_key([1, 3]))
    cache.make_room(Demand(0, 3))  # the older leaf goes, then the window of what both share
    home = node_at(cache, [1]).slots[Tier.DEVICE][FULL]
    serve(cache, a_key([1]))
    node = node_at(cache, [1])
    assert node.slots[Tier.DEVICE][FULL] == home
    assert cache.residency.map.lookup(home or []) == node.slots[Tier.DEVICE][SWA]


def test_ledgers_count_a_filling_node_as_held_and_locked():
    cache = two_tiers()
    demote(cache)
    table = admit(cache, a_key([1, 2]))
    place = (Tier.DEVICE, FULL)
    assert cache.residency.held_pages[place] == cache.residency.locked_pages[place] == 2
    land(cache)
    cache.abort(table)
    assert cache.residency.held_pages[place] == 2
    assert cache.residency.locked_pages[place] == 0


def test_the_hosts_last_copy_stays_while_somebody_holds_the_place_on_the_device():
    cache = a_cache(full=(4, 2))
    serve(cache, a_key([1, 2]))
    land(cache)
    demote(cache)
    table = admit(cache, a_key([1, 2]))
    fail(cache, Tier.DEVICE)
    serve(cache, a_key([5]))
    assert cache.backups.refused == 1
    assert table.lock is not None
    assert table.lock.anchor.attached
    cache.abort(table)
    assert audit(cache) == []
