"""Slot pools: every slot has exactly one owner.

Invariant (O1, O2): the free list holds exactly the slots whose owner is FREE, each once.
"""

from enum import IntEnum
from typing import TYPE_CHECKING

from cache.contract import BrokenInvariant
from cache.keys import gather
from cache.observer import Observer
from cache.stores import Store

if TYPE_CHECKING:
    from cache.companions import CompanionSlots


class Owner(IntEnum):
    FREE = 0
    NODE = 1
    REQUEST = 2
    COPY = 3


class SlotPool:
    """The slots of one component on one tier, each of which holds one page.

    Slots are handed out last-in-first-out, so a freed slot is reused soon: what a race would
    overwrite, it overwrites early. `bare` holds the pages alone where `store` stands for their
    companions, too. `open` is for the world to say: whether slots can be given now, or something
    else wants the memory; what has been given stays given."""

    def __init__(self, name: str, capacity: int, store: Store, observer: Observer) -> None:
        assert capacity >= 0
        self.name = name
        self.capacity = capacity
        self.store = self.bare = store
        self.companions: tuple[CompanionSlots, ...] = ()
        self.open = True
        self._observer = observer
        self._free = list(range(capacity - 1, -1, -1))
        self._owner = bytearray(capacity)

    def limit(self, capacity: int) -> None:
        """Use `capacity` slots at most, for another rank has no more. Before the first is used."""
        assert 0 <= capacity <= len(self._owner)
        assert len(self._free) == self.capacity
        self.capacity = capacity
        self._free = list(range(capacity - 1, -1, -1))

    @property
    def free_slots(self) -> int:
        return len(self._free)

    @property
    def used_slots(self) -> int:
        return self.capacity - len(self._free)

    def allocate(self, count: int, owner: Owner) -> list[int]:
        """`count` free slots, now `owner`'s. The caller has made sure that they exist."""
        assert owner is not Owner.FREE
        assert 0 <= count <= len(self._free), (self.name, count)
        if not count:
            return []
        slots = self._next(count)
        self._require(slots, Owner.FREE, "allocate")
        self._assign(slots, owner)
        self._observer.allocated(self, slots, owner)
        return slots

    def release(self, slots: list[int], owner: Owner) -> None:
        """Slots of `owner` become free, and what they held is gone."""
        if not slots:
            return
        self._observer.releasing(self, slots, owner)
        self._require(slots, owner, "release")
        self._assign(slots, Owner.FREE)
        self.store.forget(slots)
        self._free += slots
        self._observer.released(self, slots)

    def move(self, slots: list[int], old: Owner, new: Owner) -> None:
        """Hand slots over from one owner to another."""
        assert Owner.FREE not in (old, new)
        self._require(slots, old, "move")
        self._assign(slots, new)
        self._observer.moved(self, slots, old, new)

    def owner(self, slot: int) -> Owner:
        return Owner(self._owner[slot])

    def free_list(self) -> list[int]:
        """A copy of the free list, for audits."""
        return list(self._free)

    def _next(self, count: int) -> list[int]:
        """The last freed go first."""
        slots = self._free[-count:]
        del self._free[-count:]
        return slots

    def _assign(self, slots: list[int], owner: Owner) -> None:
        table, tag = self._owner, int(owner)
        for slot in slots:
            table[slot] = tag

    def _require(self, slots: list[int], owner: Owner, action: str) -> None:
        """Each of `slots` is `owner`'s, and none is listed twice."""
        if gather(self._owner, slots).count(int(owner)) != len(slots):
            bad = next(s for s in slots if self._owner[s] != owner)
            raise BrokenInvariant(
                "O1",
                f"{action}.{self.name}",
                f"slot {bad} owned by {owner.name}",
                self.owner(bad).name,
            )
        if len(set(slots)) != len(slots):
            raise BrokenInvariant("O1", f"{action}.{self.name}.twice", "each slot once", slots)


class SlotMap:
    """From FULL device slots to the SWA device slots of the same page, as sliding-window kernels
    look them up. Invariant (O3): injective on live slots, and empty for a FULL slot without SWA."""

    ABSENT = -1

    def __init__(self, full_slots: int) -> None:
        self._swa = [self.ABSENT] * full_slots

    def bind(self, full: list[int], swa: list[int]) -> None:
        assert len(full) == len(swa)
        table = self._swa
        for key, value in zip(full, swa, strict=True):
            if table[key] != self.ABSENT:
                raise BrokenInvariant("O3", "bind", f"no entry for FULL slot {key}", table[key])
            table[key] = value

    def unbind(self, full: list[int]) -> list[int]:
        """Clear the entries of `full` and return the SWA slots that they named."""
        swa = self.lookup(full)
        table = self._swa
        for key in full:
            table[key] = self.ABSENT
        return [slot for slot in swa if slot != self.ABSENT]

    def lookup(self, full: list[int]) -> list[int]:
        return gather(self._swa, full)

    def entries(self) -> list[int]:
        """A copy of the table, indexed by FULL slot, for audits."""
        return list(self._swa)
