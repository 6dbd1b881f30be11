"""Eviction: who goes first, what may not go, and that no more goes than is short."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cache.audit import audit
from cache.config import Component, EvictionOrder, Tier, WritePolicy
from cache.contract import Demand
from cache.eviction import Victims
from cache.tree import Node
from cache.unified import UnifiedCache
from tests.cache.builders import a_cache, a_key, admit, compute, demote, fail, land, node_at, serve

FULL, SWA = Component.FULL, Component.SWA


class VictimsMachine(RuleBasedStateMachine):
    """The model is a list, sorted anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.victims = Victims(EvictionOrder.LFU, FULL)
        self.nodes = [Node(number, b"", 2 * number, 2 * number + 2, 1) for number in range(5)]
        self.listed: list[Node] = []

    @rule(at=st.integers(0, 4))
    def offer(self, at: int) -> None:
        self.victims.offer(self.nodes[at])
        if self.nodes[at] not in self.listed:
            self.listed.append(self.nodes[at])

    @rule(at=st.integers(0, 4))
    def withdraw(self, at: int) -> None:
        self.victims.withdraw(self.nodes[at])
        if self.nodes[at] in self.listed:
            self.listed.remove(self.nodes[at])

    @rule(at=st.integers(0, 4), hits=st.integers(0, 2), used=st.integers(0, 2))
    def use(self, at: int, hits: int, used: int) -> None:
        """A change of rank counts from the next offer on, as every use of a node makes one."""
        node = self.nodes[at]
        node.hits, node.used[FULL] = hits, used
        if node in self.listed:
            self.victims.offer(node)

    @precondition(lambda self: self.listed)
    @rule(times=st.integers(1, 100))
    def offer_again_and_again(self, times: int) -> None:
        """The heap of stale entries is rebuilt, and forgets nobody."""
        node = self.listed[0]
        for used in range(times):
            node.used[FULL] = used
            self.victims.offer(node)

    @invariant()
    def the_first_is_the_least(self) -> None:
        order = sorted(self.listed, key=lambda n: (n.hits, n.used[FULL], -n.start))
        assert self.victims.first() is (order[0] if order else None)
        assert self.victims.numbers() == sorted(node.number for node in self.listed)
        assert all((node in self.victims) == (node in self.listed) for node in self.nodes)


TestVictims = VictimsMachine.TestCase
TestVictims.settings = settings(max_examples=40, stateful_step_count=30)


def cached(cache: UnifiedCache, *texts: list[int]) -> list[int]:
    """Pages of each text that the device can serve."""
    size = cache.config.page_size
    return [cache.match(a_key(text, size)).device_tokens // size for text in texts]


# -- the order -------------------------------------------------------------------------------


def test_the_least_recently_used_text_goes_first():
    cache = a_cache(full=(3, 0))
    for text in ([1], [2], [3], [1]):
        serve(cache, a_key(text))
    cache.make_room(Demand(1))
    assert cached(cache, [1], [2], [3]) == [1, 0, 1]


def test_the_least_often_used_text_goes_first_however_recent():
    cache = a_cache(full=(3, 0), order=EvictionOrder.LFU)
    for text in ([1], [1], [2], [2], [3]):
        serve(cache, a_key(text))
    cache.make_room(Demand(1))
    assert cached(cache, [1], [2], [3]) == [1, 1, 0]


def test_the_least_important_text_goes_first_however_often_used():
    cache = a_cache(full=(3, 0), order=EvictionOrder.PRIORITY)
    for text, priority in (([1], 0), ([2], 5), ([3], 1), ([1], 0)):
        serve(cache, a_key(text), priority=priority)
    cache.make_room(Demand(2))
    assert cached(cache, [1], [2], [3]) == [0, 1, 0]


def test_a_path_goes_from_its_deep_end():
    cache = a_cache(full=(4, 0))
    serve(cache, a_key([1, 2, 3, 4]))
    cache.make_room(Demand(1))
    assert cached(cache, [1, 2, 3, 4]) == [3]


# -- how much --------------------------------------------------------------------------------


def test_what_is_free_costs_nobody_anything():
    cache = a_cache(full=(4, 0))
    serve(cache, a_key([1, 2]))
    assert cache.make_room(Demand(2)).enough
    assert cached(cache, [1, 2]) == [2]


def test_the_shortfall_goes_and_not_the_demand():
    cache = a_cache(full=(5, 0))
    serve(cache, a_key([1, 2, 3]))
    assert cache.make_room(Demand(3)).enough
    assert cached(cache, [1, 2, 3]) == [2]


def test_one_component_may_be_short_while_the_other_is_not():
    cache = a_cache(full=(8, 8), swa=(4, 8), window=2)
    for text in ([1], [2], [3]):
        serve(cache, a_key(text))
    land(cache)
    assert cache.make_room(Demand(0, 2)).enough
    free = cache.pool(FULL, Tier.DEVICE).free_slots
    assert free == 5, "FULL pages went for want of a window"
    assert cache.pool(SWA, Tier.DEVICE).free_slots == 2


def test_locked_pages_stay_and_the_room_says_how_much_is_short():
    cache = a_cache(full=(3, 0))
    serve(cache, a_key([1, 2]))
    serve(cache, a_key([5]))
    table = admit(cache, a_key([1, 2]))
    room = cache.make_room(Demand(3))
    assert (room.short, room.pending) == ((2,), (0,))
    assert cached(cache, [1, 2], [5]) == [2, 0]
    cache.abort(table)
    assert cache.make_room(Demand(3)).enough


# -- tiers and policies ----------------------------------------------------------------------


def test_a_node_with_a_host_copy_is_demoted_and_loadable():
    cache = a_cache(full=(4, 4))
    serve(cache, a_key([1, 2]))
    land(cache)
    cache.make_room(Demand(4))
    match = cache.match(a_key([1, 2]))
    assert (match.device_tokens, match.loadable_tokens) == (0, 4)


def test_write_back_keeps_the_device_slots_until_the_copy_has_landed():
    cache = a_cache(full=(4, 4), policy=WritePolicy.WRITE_BACK)
    serve(cache, a_key([1, 2, 3]))
    room = cache.make_room(Demand(4))
    assert (room.short, room.pending) == ((3,), (3,))
    assert cached(cache, [1, 2, 3]) == [3], "still there for who comes meanwhile"
    land(cache)
    assert cache.make_room(Demand(4)).enough
    assert cache.match(a_key([1, 2, 3])).loadable_tokens == 6


def test_a_second_call_waits_for_the_same_copy_instead_of_evicting_more():
    cache = a_cache(full=(4, 4), policy=WritePolicy.WRITE_BACK)
    serve(cache, a_key([1, 2]))
    serve(cache, a_key([5]))
    for _ in range(2):
        assert cache.make_room(Demand(2)).pending == (2,)
    assert len(cache.transfers.queues[Tier.HOST]) == 1
    assert cached(cache, [5]) == [1]


def test_a_leaving_node_that_was_taken_up_again_stays_when_its_copy_lands():
    cache = a_cache(full=(4, 4), policy=WritePolicy.WRITE_BACK)
    serve(cache, a_key([1, 2]))
    cache.make_room(Demand(4))
    table = admit(cache, a_key([1, 2]))
    land(cache)
    assert cache.read(table, 4).full == a_key([1, 2]).prints()[:2]
    cache.abort(table)
    assert cache.make_room(Demand(4)).enough


def test_both_halves_of_a_leaving_node_leave():
    cache = a_cache(full=(4, 4), policy=WritePolicy.WRITE_BACK)
    serve(cache, a_key([1, 2, 3]))
    cache.make_room(Demand(4))
    cache.match(a_key([1, 9]))
    land(cache)
    assert cache.pool(FULL, Tier.DEVICE).free_slots == 4
    assert cache.match(a_key([1, 2, 3])).loadable_tokens == 6


def test_a_leaving_node_is_dropped_when_its_copy_fails():
    cache = a_cache(full=(4, 4), policy=WritePolicy.WRITE_BACK)
    serve(cache, a_key([1, 2]))
    cache.make_room(Demand(4))
    fail(cache, Tier.HOST)
    assert all(pool.used_slots == 0 for pool in cache.pools.values())


def test_a_node_that_waits_for_its_backup_is_not_kept_by_the_landing_of_another_copy():
    """Its FULL is on the way to the host when its window, revived since, is to go as well."""
    cache = a_cache(full=(12, 12), swa=(6, 1), window=2)
    serve(cache, a_key([8]))
    key, short = a_key([1, 2, 3]), a_key([1, 9])
    table = admit(cache, key)
    compute(cache, table, key, 4)
    cache.slide(table, 4)
    compute(cache, table, key, 6)
    cache.commit(table, key)
    cache.abort(table)
    table = admit(cache, short)
    compute(cache, table, short, 2)
    cache.commit(table, short)
    cache.abort(table)
    copy = cache.transfers.next_to_run(Tier.HOST)
    assert copy is not None
    cache.transfers.run(copy)
    cache.acknowledge(copy)
    node = node_at(cache, [1])
    room = cache.make_room(Demand(0, 6))
    assert node.leaving == (SWA,)
    assert room.pending == (0, 1)
    land(cache)
    assert cache.pool(SWA, Tier.DEVICE).free_slots == 6, "what was pending never came"
    assert node.ready(Tier.HOST, SWA)


def test_write_back_drops_a_victim_that_the_host_has_no_room_for():
    cache = a_cache(full=(4, 1), policy=WritePolicy.WRITE_BACK)
    serve(cache, a_key([1, 2]))
    assert cache.make_room(Demand(4)).enough
    assert all(pool.used_slots == 0 for pool in cache.pools.values())


def test_host_only_children_go_with_the_last_copy_of_their_parent():
    """write_back: the children of a device-only node may have left the device before it."""
    cache = a_cache(full=(4, 2), policy=WritePolicy.WRITE_BACK)
    serve(cache, a_key([1, 2]))
    serve(cache, a_key([1, 3]))
    parent = node_at(cache, [1])
    cache.make_room(Demand(3))
    land(cache)
    assert parent.slots[Tier.HOST][FULL] is None
    assert parent.kids == [0, 2]
    cache.make_room(Demand(4))
    fail(cache, Tier.HOST)
    assert not parent.attached
    assert all(pool.used_slots == 0 for pool in cache.pools.values())
    assert audit(cache) == []


def test_evicting_from_the_device_may_evict_from_the_host_to_back_up():
    cache = a_cache(full=(4, 2), policy=WritePolicy.WRITE_BACK)
    for text in ([1, 2], [3, 4]):
        serve(cache, a_key(text))
        cache.make_room(Demand(4))
        land(cache)
    assert cache.match(a_key([1, 2])).loadable_tokens == 0
    assert cache.match(a_key([3, 4])).loadable_tokens == 4


@pytest.mark.parametrize("longer", [[1], [1, 2]])
def test_the_only_copy_of_a_window_is_backed_up_where_its_prefix_is_on_the_host(longer):
    """Else a prefix on the host could never be loaded again, and nothing would tell. On a leaf as
    on an inner node."""
    cache = a_cache(full=(8, 8), swa=(4, 4), window=2)
    serve(cache, a_key([1]))
    serve(cache, a_key(longer))
    land(cache)
    cache.residency.drop(node_at(cache, [1]), Tier.HOST, SWA)
    cache.make_room(Demand(0, 4))
    land(cache)
    demote(cache)
    assert cache.pool(SWA, Tier.DEVICE).used_slots == 0
    assert cache.match(a_key([1])).loadable_tokens == 2
    assert cache.evictor.only_copies_dropped == 0


def test_the_only_copy_of_a_window_that_cannot_be_backed_up_is_counted():
    cache = a_cache(full=(8, 8), swa=(4, 1), window=2)
    serve(cache, a_key([1]))
    land(cache)
    cache.residency.drop(node_at(cache, [1]), Tier.HOST, SWA)
    serve(cache, a_key([7]))  # its copy holds the host's one window
    cache.make_room(Demand(0, 4))
    assert cache.evictor.only_copies_dropped == 1


@pytest.mark.parametrize("policy", list(WritePolicy))
def test_room_that_is_available_can_be_had(policy):
    """What `available` promises, eviction and the copies that it waits for deliver."""
    cache = a_cache(full=(6, 6), swa=(4, 4), window=2, policy=policy)
    serve(cache, a_key([1, 2]))
    serve(cache, a_key([1, 3]))
    land(cache)
    table = admit(cache, a_key([1, 3]))
    land(cache)
    promised = [cache.available(component) for component in cache.config.components]
    assert promised == [4, 3]
    cache.make_room(Demand(*promised))
    land(cache)
    assert cache.make_room(Demand(*promised)).enough
    cache.abort(table)


def test_a_room_does_not_wait_for_what_somebody_has_taken_up_again():
    cache = a_cache(full=(4, 4), policy=WritePolicy.WRITE_BACK)
    serve(cache, a_key([1, 2]))
    serve(cache, a_key([3, 4]))
    cache.make_room(Demand(2))
    table = admit(cache, a_key([1, 2]))
    cache.make_room(Demand(2))
    land(cache)
    assert cache.pool(FULL, Tier.DEVICE).free_slots == 2
    cache.abort(table)


def test_everything_goes_when_nothing_is_held():
    cache = a_cache(full=(8, 8), swa=(4, 4), window=3)
    for text in ([1, 2, 3], [1, 2, 4], [5]):
        serve(cache, a_key(text))
        land(cache)
    demote(cache)
    assert all(cache.pool(c, Tier.DEVICE).used_slots == 0 for c in cache.config.components)
    assert audit(cache) == []
