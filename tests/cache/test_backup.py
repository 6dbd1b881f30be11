"""Backups: when they are due, what goes along, and that the host never has a gap."""

import pytest

from cache.audit import audit
from cache.config import Component, EvictionOrder, Tier, WritePolicy
from cache.contract import Demand
from cache.unified import UnifiedCache
from tests.cache.builders import a_cache, a_key, admit, compute, demote, fail, land, node_at, serve

FULL, SWA = Component.FULL, Component.SWA


def host_pages(cache: UnifiedCache, component: Component = FULL) -> int:
    return cache.pool(component, Tier.HOST).used_slots


@pytest.mark.parametrize(
    ("policy", "uses"),
    [(WritePolicy.WRITE_THROUGH, 1), (WritePolicy.WRITE_THROUGH_SELECTIVE, 2)],
)
def test_a_node_is_backed_up_on_the_use_that_its_policy_names(policy, uses):
    cache = a_cache(full=(4, 4), policy=policy)
    seen = []
    for _ in range(uses):
        seen.append(host_pages(cache))
        serve(cache, a_key([1, 2]))
    assert seen == [0] * uses
    assert host_pages(cache) == 2


def test_under_write_back_no_use_backs_up():
    cache = a_cache(full=(4, 4), policy=WritePolicy.WRITE_BACK)
    for _ in range(3):
        serve(cache, a_key([1, 2]))
    assert host_pages(cache) == 0


def test_a_second_use_while_the_copy_is_under_way_issues_no_second_copy():
    cache = a_cache(full=(4, 4))
    for _ in range(3):
        serve(cache, a_key([1, 2]))
    assert len(cache.transfers.queues[Tier.HOST]) == 1


def test_ancestors_that_the_host_lacks_go_along_so_that_it_has_no_child_without_its_parent():
    """The host has given the parent up before the child is due."""
    cache = a_cache(full=(6, 3), policy=WritePolicy.WRITE_THROUGH_SELECTIVE)
    for text in ([1, 2], [1, 3]):
        serve(cache, a_key(text))
    parent, child = node_at(cache, [1]), node_at(cache, [1, 3])
    assert parent.slots[Tier.HOST][FULL] is not None
    land(cache)
    cache.residency.drop(parent, Tier.HOST, FULL)
    serve(cache, a_key([1, 3]))
    land(cache)
    assert parent.ready(Tier.HOST, FULL)
    assert child.ready(Tier.HOST, FULL)
    assert audit(cache) == []


def test_a_child_whose_parents_copy_failed_is_given_back_too():
    cache = a_cache(full=(4, 4))
    key = a_key([1, 2])
    table = admit(cache, key)
    for tokens in (2, 4):
        compute(cache, table, key, tokens)
        cache.commit(table, key)
    cache.finish(table, key)
    assert len(cache.transfers.queues[Tier.HOST]) == 2
    fail(cache, Tier.HOST)
    assert audit(cache) == []
    land(cache)
    assert host_pages(cache) == 0
    assert cache.match(key).device_tokens == 4, "a failed backup costs the device nothing"


def test_under_write_back_a_child_needs_no_parent_on_the_host():
    cache = a_cache(full=(4, 4), policy=WritePolicy.WRITE_BACK)
    serve(cache, a_key([1, 2]))
    serve(cache, a_key([1]))
    parent = node_at(cache, [1])
    cache.make_room(Demand(3))
    land(cache)
    assert (host_pages(cache), parent.ready(Tier.HOST, FULL)) == (1, False)
    assert cache.match(a_key([1, 2])).loadable_tokens == 4


def test_a_window_that_came_back_later_is_backed_up_alone():
    cache = a_cache(full=(8, 8), swa=(4, 4), window=2)
    serve(cache, a_key([1]))
    land(cache)
    cache.residency.drop(node_at(cache, [1]), Tier.HOST, SWA)
    serve(cache, a_key([1]))
    (copy,) = cache.transfers.queues[Tier.HOST]
    assert [part.component for part in copy.parts] == [SWA]
    land(cache)
    demote(cache)
    assert cache.match(a_key([1])).loadable_tokens == 2


def test_a_refused_backup_changes_nothing_but_the_count_of_refusals():
    cache = a_cache(full=(4, 1))
    serve(cache, a_key([1, 2]))
    assert cache.backups.refused == 1
    assert (host_pages(cache), len(cache.locks), len(cache.transfers)) == (0, 0, 0)
    assert audit(cache) == []


def test_making_room_on_the_host_frees_neither_the_source_nor_the_parent():
    """By its priority [1] would be the first to go from the host, from above its own child."""
    cache = a_cache(full=(6, 2), order=EvictionOrder.PRIORITY)
    serve(cache, a_key([1]), priority=0)
    serve(cache, a_key([5]), priority=9)
    land(cache)
    serve(cache, a_key([1, 2]), priority=0)
    assert node_at(cache, [5]).slots[Tier.HOST][FULL] is None
    land(cache)
    demote(cache)
    assert cache.match(a_key([1, 2])).loadable_tokens == 4
    assert audit(cache) == []


def test_a_host_that_is_full_of_copies_in_flight_refuses():
    cache = a_cache(full=(4, 2))
    serve(cache, a_key([1, 2]))
    serve(cache, a_key([3, 4]))
    assert cache.backups.refused == 1
    land(cache)
    serve(cache, a_key([3, 4]))
    assert cache.match(a_key([3, 4])).device_tokens == 4
    assert len(cache.transfers) == 1


def test_a_node_larger_than_the_host_does_not_cost_the_host_what_it_has():
    cache = a_cache(full=(8, 2))
    serve(cache, a_key([1]))
    land(cache)
    serve(cache, a_key([5, 6, 7]))
    assert cache.backups.refused == 1
    assert node_at(cache, [1]).ready(Tier.HOST, FULL)


def test_a_backup_that_cannot_be_had_costs_the_host_nothing():
    """A failed load-back leaves a holder with a place that only the host fills: those pages are
    not to be had, and nothing else may go in the vain hope for them."""
    cache = a_cache(full=(6, 4), policy=WritePolicy.WRITE_THROUGH)
    for text in ([1, 2], [3]):
        serve(cache, a_key(text))
        land(cache)
    demote(cache)
    waiting = admit(cache, a_key([1, 2]))
    fail(cache, Tier.DEVICE)
    assert waiting.lock is not None
    assert node_at(cache, [1, 2]).slots[Tier.DEVICE][FULL] is None
    serve(cache, a_key([4, 5, 6]))
    assert cache.backups.refused == 1
    assert cache.match(a_key([3])).loadable_tokens == 2, "the rest of the host was left alone"
    assert audit(cache) == []
