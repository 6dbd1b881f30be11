"""Insertion: whose slot stays where the tree and a request have the same page."""

import pytest

from cache.audit import audit
from cache.config import Component, Tier
from cache.contract import Commit, Demand
from cache.table import PageTable
from cache.unified import UnifiedCache
from tests.cache.builders import a_cache, a_key, admit, compute, demote, land, node_at, serve

FULL, SWA = Component.FULL, Component.SWA


def computed(cache: UnifiedCache, text: list[int], tokens: int, holder: str = "r") -> PageTable:
    """A request that matched nothing of what it then computed itself."""
    table = admit(cache, a_key(text), holder)
    compute(cache, table, a_key(text), tokens)
    return table


def test_a_duplicate_goes_back_to_the_pool_and_the_table_points_at_the_trees_page():
    cache = a_cache(full=(8, 0))
    one, two = computed(cache, [1, 2], 4), computed(cache, [1, 2], 4)
    assert cache.commit(one, a_key([1, 2])) == Commit(2, 2, 0, False)
    assert cache.commit(two, a_key([1, 2])) == Commit(2, 0, 2, False)
    assert two.full == one.full
    assert cache.pool(FULL, Tier.DEVICE).used_slots == 2
    assert cache.read(two, 4).full == a_key([1, 2]).prints()[:2]


def test_a_tombstone_takes_the_requests_pages_and_stays_on_the_host():
    cache = a_cache(full=(8, 8))
    late = admit(cache, a_key([1, 2]), "late")  # before there was anything to match
    serve(cache, a_key([1, 2]))
    land(cache)
    demote(cache)
    compute(cache, late, a_key([1, 2]), 4)
    own = list(late.full)
    assert cache.commit(late, a_key([1, 2])) == Commit(2, 2, 0, False)
    node = node_at(cache, [1, 2])
    assert node.slots[Tier.DEVICE][FULL] == own
    assert node.ready(Tier.HOST, FULL)
    assert cache.pool(FULL, Tier.HOST).used_slots == 2


def test_pages_that_other_tables_point_at_are_never_replaced():
    """An insert over a window tombstone gives its window to the tree's pages; it does not swap the
    tree's FULL pages, which others read, for its own."""
    cache = a_cache(full=(8, 0), swa=(6, 0), window=2)
    writer = admit(cache, a_key([1]), "writer")
    serve(cache, a_key([1]))
    reader = admit(cache, a_key([1]), "reader")
    cache.slide(reader, 2)
    compute(cache, reader, a_key([1, 2]), 4)
    cache.slide(reader, 4)
    cache.make_room(Demand(0, 5))
    tombstone = node_at(cache, [1])
    assert tombstone.slots[Tier.DEVICE][SWA] is None
    compute(cache, writer, a_key([1]), 2)
    assert cache.commit(writer, a_key([1])) == Commit(1, 0, 1, False)
    assert tombstone.ready(Tier.DEVICE, SWA)
    assert cache.read(writer, 2).swa == a_key([1]).prints()[:1]
    assert cache.read(reader, 4).full == a_key([1, 2]).prints()[:2]
    assert audit(cache) == []


def test_only_the_window_that_the_request_still_has_revives_a_tombstone():
    """One long node has lost its window; it is cut where the request's begins, and what lies above
    stays a tombstone."""
    cache = a_cache(full=(8, 0), swa=(8, 0), window=2)
    key, longer = a_key([1, 2, 3]), a_key([1, 2, 3, 4])
    late = computed(cache, [1, 2, 3], 6, "late")
    cache.slide(late, 6)
    holder = admit(cache, longer, "holder")
    compute(cache, holder, longer, 6)
    cache.commit(holder, longer)
    compute(cache, holder, longer, 8)
    cache.slide(holder, 8)
    cache.make_room(Demand(0, 6))
    (tombstone,) = cache.tree.nodes()
    assert (tombstone.end, tombstone.slots[Tier.DEVICE][SWA]) == (6, None)
    assert cache.commit(late, key) == Commit(3, 0, 3, False)
    windows = {node.end: node.slots[Tier.DEVICE][SWA] is not None for node in cache.tree.nodes()}
    assert windows == {4: False, 6: True}
    assert cache.read(late, 6).swa == key.prints()[2:3]
    assert cache.match(key).device_tokens == 6
    assert audit(cache) == []


def test_pages_that_left_the_window_enter_the_tree_without_one():
    cache = a_cache(full=(8, 0), swa=(8, 0), window=2)
    table = computed(cache, [1, 2, 3], 6)
    cache.slide(table, 6)
    assert cache.pool(SWA, Tier.DEVICE).used_slots == 1
    cache.finish(table, a_key([1, 2, 3]))
    nodes = {node.end: node.slots[Tier.DEVICE][SWA] for node in cache.tree.nodes()}
    assert nodes[4] is None
    assert nodes[6] is not None
    assert cache.match(a_key([1, 2, 3])).device_tokens == 6
    assert audit(cache) == []


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("written", range(4, 9))
def test_what_a_request_leaves_behind_can_be_served_wherever_its_window_ended(window, written):
    """Sliding before the commit must keep the page in which the last whole prefix's window ends;
    it matters where the window is no multiple of the page."""
    cache = a_cache(full=(8, 0), swa=(8, 0), window=window)
    key = a_key([1, 2, 3, 4])
    table = admit(cache, key)
    for tokens in range(1, written + 1):
        compute(cache, table, key, tokens)
        cache.slide(table, tokens)
    cache.finish(table, key)
    whole = written // 2
    assert cache.match(a_key([1, 2, 3, 4][:whole])).device_tokens == whole * 2


def a_late_request(cache: UnifiedCache) -> PageTable:
    """It found nothing and computed [1 2 3]; meanwhile [1 2] is on its way back to the device."""
    late = admit(cache, a_key([1, 2, 3]), "late")
    serve(cache, a_key([1, 2]))
    land(cache)
    demote(cache)
    admit(cache, a_key([1, 2]), "loading")
    compute(cache, late, a_key([1, 2, 3]), 6)
    return late


def test_an_insert_stops_above_pages_that_a_copy_is_filling_and_goes_on_when_it_has_landed():
    cache = a_cache(full=(8, 8))
    late, key = a_late_request(cache), a_key([1, 2, 3])
    assert cache.commit(late, key) == Commit(0, 0, 0, True)
    assert cache.read(late, 6).full == key.prints()[:3]
    land(cache)
    assert cache.commit(late, key) == Commit(3, 1, 2, False)
    assert late.full[:2] == node_at(cache, [1, 2]).slots[Tier.DEVICE][FULL]
    assert cache.read(late, 6).full == key.prints()[:3]
    assert audit(cache) == []


def test_a_blocked_finish_gives_the_rest_back():
    cache = a_cache(full=(8, 8))
    late = a_late_request(cache)
    assert cache.finish(late, a_key([1, 2, 3])).blocked
    assert cache.pool(FULL, Tier.DEVICE).used_slots == 2, "only what the copy fills"
    assert audit(cache) == []


def test_nothing_enters_the_tree_before_it_is_a_whole_written_page():
    cache = a_cache(full=(8, 0), page=4)
    key = a_key([1, 2], 4)
    table = admit(cache, key)
    compute(cache, table, key, 7)
    assert cache.commit(table, key).pages == 1
    assert cache.match(a_key([1, 2], 4)).device_tokens == 4
    cache.write(table, key.prints(), 8)
    assert cache.commit(table, key) == Commit(2, 1, 0, False)
