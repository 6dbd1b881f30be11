"""Pools: every slot has one owner, and whoever asks for a slot that is not theirs is told so."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cache.contract import BrokenInvariant
from cache.keys import UNWRITTEN
from cache.observer import Observer
from cache.pools import Owner, SlotMap, SlotPool
from cache.stores import FingerprintStore

CAPACITY = 6
HOLDERS = st.sampled_from([Owner.NODE, Owner.REQUEST, Owner.COPY])
SLOTS = st.lists(st.integers(0, CAPACITY - 1), max_size=CAPACITY)


def a_pool(capacity: int = CAPACITY) -> SlotPool:
    return SlotPool("device_full", capacity, FingerprintStore(capacity), Observer())


class PoolMachine(RuleBasedStateMachine):
    """The model is a dictionary from slot to owner."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = a_pool()
        self.owners = dict.fromkeys(range(CAPACITY), Owner.FREE)

    @rule(count=st.integers(0, CAPACITY), owner=HOLDERS)
    def allocate(self, count: int, owner: Owner) -> None:
        count = min(count, self.pool.free_slots)
        slots = self.pool.allocate(count, owner)
        assert len(slots) == len(set(slots)) == count
        assert all(self.owners[slot] is Owner.FREE for slot in slots)
        assert self.pool.store.read(slots) == [UNWRITTEN] * count, "a slot comes with old content"
        self.pool.store.write(slots, [slot + 1 for slot in slots])
        self.owners.update(dict.fromkeys(slots, owner))

    @rule(slots=SLOTS, owner=HOLDERS)
    def release(self, slots: list[int], owner: Owner) -> None:
        if self._allowed(slots, owner):
            self.pool.release(slots, owner)
            self.owners.update(dict.fromkeys(slots, Owner.FREE))
            return
        with pytest.raises(BrokenInvariant) as caught:
            self.pool.release(slots, owner)
        assert caught.value.oracle == "O1"

    @rule(slots=SLOTS, old=HOLDERS, new=HOLDERS)
    def move(self, slots: list[int], old: Owner, new: Owner) -> None:
        if self._allowed(slots, old):
            self.pool.move(slots, old, new)
            self.owners.update(dict.fromkeys(slots, new))
            return
        with pytest.raises(BrokenInvariant):
            self.pool.move(slots, old, new)

    def _allowed(self, slots: list[int], owner: Owner) -> bool:
        return len(set(slots)) == len(slots) and all(self.owners[s] is owner for s in slots)

    @invariant()
    def the_pool_is_the_model(self) -> None:
        free = sorted(slot for slot, owner in self.owners.items() if owner is Owner.FREE)
        assert sorted(self.pool.free_list()) == free
        assert self.pool.free_slots + self.pool.used_slots == CAPACITY
        assert {slot: self.pool.owner(slot) for slot in self.owners} == self.owners
        held = [slot for slot in self.owners if slot not in free]
        assert self.pool.store.read(held) == [slot + 1 for slot in held]


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=25)


def test_a_freed_slot_is_the_next_one_given_out_so_that_a_stale_pointer_shows_early():
    pool = a_pool()
    first = pool.allocate(2, Owner.NODE)
    pool.allocate(1, Owner.NODE)
    pool.release(first, Owner.NODE)
    assert pool.allocate(2, Owner.REQUEST) == first


def test_more_than_there_is_cannot_be_asked_for():
    pool = a_pool(2)
    with pytest.raises(AssertionError):
        pool.allocate(3, Owner.NODE)


def test_a_full_slot_cannot_be_bound_to_two_windows():
    table = SlotMap(4)
    table.bind([1, 2], [0, 3])
    with pytest.raises(BrokenInvariant) as caught:
        table.bind([2], [1])
    assert caught.value.oracle == "O3"
    assert table.lookup([2]) == [3]


def test_unbinding_gives_back_what_was_bound_and_skips_what_was_not():
    table = SlotMap(4)
    table.bind([1, 2], [0, 3])
    assert table.unbind([0, 1, 2]) == [0, 3]
    assert table.unbind([1, 2]) == []
    assert table.entries() == [SlotMap.ABSENT] * 4
