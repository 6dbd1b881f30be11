"""Load-back: anchored where everything is valid, all components or none, and never twice."""

import pytest

from cache.audit import audit
from cache.config import Component, Tier, WritePolicy
from cache.contract import Demand, LoadBack, LoadOutcome, Match
from cache.locks import Lock
from cache.transfers import CopyState
from cache.unified import UnifiedCache
from tests.cache.brute import resident_pages
from tests.cache.builders import a_cache, a_key, admit, compute, demote, fail, land, node_at, serve

FULL, SWA = Component.FULL, Component.SWA


def on_the_host(*texts: list[int], **settings: object) -> UnifiedCache:
    """A cache that has the texts on the host only."""
    cache = a_cache(**{"full": (8, 8), **settings})
    for text in texts:
        serve(cache, a_key(text))
        land(cache)
    demote(cache)
    while len(cache.transfers):  # under write_back a leaf leaves once its backup has landed
        land(cache)
        demote(cache)
    return cache


def load(cache: UnifiedCache, text: list[int]) -> tuple[Match, Lock, LoadBack]:
    match = cache.match(a_key(text))
    admission = cache.lock(match, "r.admission")
    assert admission is not None
    return match, admission, cache.load_back(match, admission)


WINDOWED = {"swa": (4, 8), "window": 2}


def test_what_lands_is_what_was_counted_and_can_be_read():
    cache = on_the_host([1], [1, 2, 3], **WINDOWED)
    match, admission, result = load(cache, [1, 2, 3])
    assert match.load_pages == result.pages == (3, 2)
    table = cache.settle(match, admission, "r")
    cache.unlock(admission)
    assert (table.device_tokens, table.host_tokens) == (0, 6)
    assert table.waits == [result.copy]
    land(cache)
    prints = a_key([1, 2, 3]).prints()[:3]
    assert cache.read(table, 6)[:3] == (prints, prints[2:], 2)


def test_only_what_the_device_lacks_is_brought():
    cache = on_the_host([1, 2])
    serve(cache, a_key([1]))
    _, _, result = load(cache, [1, 2])
    assert result.pages == (1,)
    assert result.copy is not None
    assert [part.node for part in result.copy.parts] == [node_at(cache, [1, 2])]


def test_a_window_that_went_alone_comes_back_alone():
    cache = a_cache(full=(8, 8), **WINDOWED)
    serve(cache, a_key([1, 2]))
    land(cache)
    cache.make_room(Demand(0, 4))
    _, _, result = load(cache, [1, 2])
    assert result.pages == (0, 2)
    assert result.outcome is LoadOutcome.ISSUED


def test_the_anchor_is_valid_for_every_component_and_not_the_deepest_full_copy():
    cache = on_the_host([1], [1, 2], **WINDOWED)
    cache.residency.drop(node_at(cache, [1, 2]), Tier.HOST, SWA)
    match, _, result = load(cache, [1, 2])
    assert match.loadable_tokens == 2
    assert result.pages == (1, 1)


def test_a_second_request_joins_the_copy_in_flight_and_waits_for_it():
    cache = on_the_host([1, 2])
    first = admit(cache, a_key([1, 2]), "first")
    match, admission, result = load(cache, [1, 2])
    assert result.outcome is LoadOutcome.JOINED
    second = cache.settle(match, admission, "second")
    cache.unlock(admission)
    assert second.waits == first.waits
    assert second.full == first.full
    land(cache)
    assert cache.read(second, 4).full == a_key([1, 2]).prints()[:2]


def test_the_part_that_a_first_copy_does_not_bring_is_brought_by_a_second_and_both_are_awaited():
    cache = on_the_host([1], [1, 2], [1, 2, 3], **WINDOWED)
    deep = admit(cache, a_key([1, 2, 3]), "deep")
    shallow = admit(cache, a_key([1, 2]), "shallow")
    assert [copy.number for copy in shallow.waits] == sorted(c.number for c in shallow.waits)
    first, second = shallow.waits
    assert deep.waits == [first]
    assert [(p.component, p.node.end) for p in second.parts] == [(SWA, 4)]
    land(cache)
    assert cache.read(shallow, 4).swa == a_key([1, 2]).prints()[1:2]


def test_a_prefix_below_the_threshold_is_not_worth_a_copy():
    cache = on_the_host([1, 2], threshold=6)
    _, _, result = load(cache, [1, 2])
    assert result.outcome is LoadOutcome.TOO_SHORT
    assert len(cache.transfers) == 0
    cache = on_the_host([1, 2, 3], threshold=6)
    assert load(cache, [1, 2, 3])[2].outcome is LoadOutcome.ISSUED


@pytest.mark.parametrize(
    ("held", "outcome"), [([1], LoadOutcome.ISSUED), ([1, 2], LoadOutcome.TOO_SHORT)]
)
def test_the_threshold_counts_what_is_gained_and_not_what_is_matched(held, outcome):
    cache = on_the_host([1], [1, 2], [1, 2, 3], threshold=4)
    key = a_key(held)
    table = admit(cache, key)
    compute(cache, table, key, 2 * len(held))
    cache.commit(table, key)
    land(cache)
    demote(cache)
    assert load(cache, [1, 2, 3])[2].outcome is outcome


def test_without_room_nothing_is_reserved_and_nothing_waits():
    cache = on_the_host([1, 2, 3], full=(4, 8))
    key = a_key([5, 6])
    table = admit(cache, key)
    compute(cache, table, key, 4)
    match, admission, result = load(cache, [1, 2, 3])
    assert result.outcome is LoadOutcome.NO_ROOM
    assert (result.copy, result.pages, result.room.short) == (None, (0,), (1,))
    assert cache.pool(FULL, Tier.DEVICE).free_slots == 2
    settled = cache.settle(match, admission, "r")
    assert (settled.hit_tokens, settled.waits) == (0, [])


def test_a_component_without_room_keeps_the_others_from_being_loaded():
    cache = on_the_host([1, 2], swa=(2, 4), window=4)
    key = a_key([7, 8])
    table = admit(cache, key)
    compute(cache, table, key, 4)
    _, _, result = load(cache, [1, 2])
    assert result.outcome is LoadOutcome.NO_ROOM
    assert result.room.short == (0, 2)
    assert cache.pool(FULL, Tier.DEVICE).used_slots == 2, "FULL was loaded without its window"


def test_an_anchor_that_was_evicted_between_match_and_lock_is_noticed():
    cache = on_the_host([1, 2], full=(8, 2))
    match = cache.match(a_key([1, 2]))
    serve(cache, a_key([5, 6]))
    assert not match.anchor.attached
    assert cache.lock(match, "r.admission") is None


def test_an_anchor_that_has_lost_its_window_between_match_and_lock_is_stale():
    cache = on_the_host([1, 2], **WINDOWED)
    match = cache.match(a_key([1, 2]))
    cache.residency.drop(match.anchor, Tier.HOST, SWA)
    admission = cache.lock(match, "r.admission")
    assert admission is not None
    assert cache.load_back(match, admission).outcome is LoadOutcome.STALE
    assert cache.settle(match, admission, "r").hit_tokens == 0


def test_making_room_for_a_load_back_frees_no_host_slot_that_it_is_about_to_read():
    """Room is made by evicting, which backs up, which evicts from the host."""
    cache = a_cache(full=(2, 2), policy=WritePolicy.WRITE_BACK)
    serve(cache, a_key([1, 2]))
    demote(cache)
    land(cache)
    serve(cache, a_key([5, 6]))
    match, admission, result = load(cache, [1, 2])
    assert result.outcome is LoadOutcome.ISSUED
    table = cache.settle(match, admission, "r")
    land(cache)
    assert cache.read(table, 4).full == a_key([1, 2]).prints()[:2]
    assert audit(cache) == []


def test_host_slots_stay_until_the_bytes_have_moved_even_if_the_request_is_gone():
    cache = on_the_host([1, 2], full=(6, 2))
    table = admit(cache, a_key([1, 2]))
    cache.abort(table)
    serve(cache, a_key([5, 6]))
    assert cache.backups.refused == 1
    land(cache)
    assert cache.match(a_key([1, 2])).device_tokens == 4
    assert audit(cache) == []


def test_a_failed_copy_leaves_the_host_copy_to_be_loaded_again():
    cache = on_the_host([1, 2], **WINDOWED)
    before = resident_pages(cache)
    table = admit(cache, a_key([1, 2]))
    failed = fail(cache, Tier.DEVICE)
    assert table.waits == [failed]
    assert failed.state is CopyState.FAILED
    cache.abort(table)
    assert resident_pages(cache) == before
    again = admit(cache, a_key([1, 2]))
    land(cache)
    assert cache.read(again, 4).full == a_key([1, 2]).prints()[:2]


@pytest.mark.parametrize("policy", [WritePolicy.WRITE_THROUGH, WritePolicy.WRITE_BACK])
def test_a_copy_that_hangs_below_a_failed_one_is_doomed_and_offered_to_nobody(policy):
    """Under write_back too: the host may have a child without its parent, the device may not."""
    cache = on_the_host([1], [1, 2], policy=policy)
    upper = admit(cache, a_key([1]), "upper")
    lower = admit(cache, a_key([1, 2]), "lower")
    follower = lower.waits[-1]
    fail(cache, Tier.DEVICE)
    assert follower.doomed
    match = cache.match(a_key([1, 2]))
    assert (match.device_tokens, match.loadable_tokens) == (0, 2)
    assert audit(cache) == []
    land(cache)
    assert follower.state is CopyState.FAILED
    for table in (upper, lower):
        cache.abort(table)
    assert cache.pool(FULL, Tier.DEVICE).used_slots == 0
    assert cache.match(a_key([1, 2])).loadable_tokens == 4


def test_a_request_that_settles_on_a_doomed_copy_gets_what_is_sound_above_it():
    cache = on_the_host([1], [1, 2], [1, 2, 3])
    serve(cache, a_key([1]))
    admit(cache, a_key([1, 2]), "upper")
    admit(cache, a_key([1, 2, 3]), "lower")
    match = cache.match(a_key([1, 2, 3]))
    admission = cache.lock(match, "third.admission")
    assert admission is not None
    fail(cache, Tier.DEVICE)
    table = cache.settle(match, admission, "third")
    assert (match.loadable_tokens, table.hit_tokens, table.waits) == (6, 2, [])


def test_a_failed_window_dooms_no_copy_below_it():
    """A window is nobody's parent: the copy that only hangs below its node is sound."""
    cache = on_the_host([1], [1, 2], **WINDOWED)
    holder = admit(cache, a_key([1]), "holder")
    land(cache)
    cache.abort(holder)
    cache.make_room(Demand(0, 4))
    window = admit(cache, a_key([1]), "window").waits[0]
    below = admit(cache, a_key([1, 2]), "below")
    assert [part.component for part in window.parts] == [SWA]
    assert fail(cache, Tier.DEVICE) is window
    assert not below.waits[0].doomed
    land(cache)
    prints = a_key([1, 2]).prints()
    assert cache.read(below, 4)[:3] == (prints[:2], prints[1:2], 1)


def test_nothing_is_brought_to_a_node_that_a_doomed_copy_still_fills():
    """Its FULL would stand beside a window that the map does not know."""
    cache = on_the_host([1], [1, 2], [1, 2, 3], **WINDOWED)
    admit(cache, a_key([1, 2, 3]), "deep")
    admit(cache, a_key([1]), "shallow")
    fail(cache, Tier.DEVICE)
    (doomed,) = cache.transfers.queues[Tier.DEVICE]
    assert doomed.doomed
    assert cache.match(a_key([1, 2, 3])).loadable_tokens == 0
    again = admit(cache, a_key([1, 2, 3]), "again")
    assert (again.hit_tokens, audit(cache)) == (0, [])
    land(cache)
    assert cache.match(a_key([1, 2, 3])).loadable_tokens == 6


def test_a_load_back_that_cannot_have_room_costs_nobody_their_pages():
    cache = on_the_host([1, 2, 3], full=(4, 4))
    key = a_key([5, 6])
    table = admit(cache, key)
    compute(cache, table, key, 4)
    serve(cache, a_key([7]))
    assert load(cache, [1, 2, 3])[2].outcome is LoadOutcome.NO_ROOM
    assert cache.match(a_key([7])).device_tokens == 2
