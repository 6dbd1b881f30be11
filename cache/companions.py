"""Companions: what belongs to a slot and shares its fate.

    owner's slot    allocate --> write --> copy --> ... --> release
    companions      allocate     write     copy             release     in the same call

They hang on slots and not on nodes, so whoever moves slots (a split, a lock, a graft) moves them
along without knowing of them. Invariant (O3, M1): a slot that is in use has all its companions and
a free one none; so a prefix that the tree has on a tier is there with all of them.
"""

from collections.abc import Callable

from cache.config import CacheConfig, Companion, Component, Tier
from cache.contract import BrokenInvariant
from cache.keys import gather, namespace_seed
from cache.observer import Observer
from cache.pools import Owner, SlotPool
from cache.stores import FingerprintStore, Store, StoreMaker

ABSENT = -1
CompanionStoreMaker = Callable[[Tier, Companion, int], Store]  # for so many slots on a tier


def companion_fingerprints(tier: Tier, companion: Companion, capacity: int) -> Store:
    """The default: a companion, too, is the fingerprint of the page that it belongs to."""
    return FingerprintStore(capacity)


class CompanionSlots:
    """A companion beside one pool of its owner, under the owner's slot numbers.

    Its content is named by the page's fingerprint, too, and marked as its own: what belongs to the
    owner, or to another companion, reads as that of no page."""

    def __init__(self, companion: Companion, store: Store) -> None:
        self.companion = companion
        self.store = store
        self._mark = namespace_seed(companion.name)
        self.pool: SlotPool | None = None  # its own, if it has one

    @property
    def name(self) -> str:
        return self.companion.name

    def of(self, slots: list[int]) -> list[int]:
        """Its own slots that belong to `slots` of its owner."""
        return slots

    def read(self, slots: list[int]) -> list[int]:
        """What it holds for `slots` of its owner, as are all the `slots` below."""
        mark = self._mark
        return [seen and seen ^ mark for seen in self.store.read(self.of(slots))]

    def write(self, slots: list[int], prints: list[int]) -> None:
        mark = self._mark
        self.store.write(self.of(slots), [print_ ^ mark for print_ in prints])

    def forget(self, slots: list[int]) -> None:
        self.store.forget(self.of(slots))

    def take(self, other: "CompanionSlots", source: list[int], target: list[int]) -> None:
        """Copy what `other` holds for `source` to where it belongs for `target`."""
        self.store.take(other.store, other.of(source), self.of(target))

    @property
    def body_bytes(self) -> int:
        return self.store.body_bytes

    def bodies(self, slots: list[int]) -> list[memoryview]:
        """As those of a `Store`, and `restore` too."""
        return self.store.bodies(self.of(slots))

    def restore(self, slot: int, print_: int, body: memoryview) -> None:
        self.store.restore(self.of([slot])[0], print_ ^ self._mark, body)

    def join(self, slots: list[int], owner: Owner) -> None:
        """`slots` have become `owner`'s, out of free ones."""

    def move(self, slots: list[int], old: Owner, new: Owner) -> None:
        """`slots` have changed hands."""

    def leave(self, slots: list[int], owner: Owner) -> None:
        """`slots` have become free."""


class QueuedPool(SlotPool):
    """Slots are handed out first-in-first-out: which of them meets which of its owner's changes all
    the time, so nobody may count on an old entry."""

    def _next(self, count: int) -> list[int]:
        slots = self._free[:count]
        del self._free[:count]
        return slots


class OwnSlots(CompanionSlots):
    """A companion with a pool of its own: which of its slots belongs to which of its owner's is
    looked up in a table, as kernels do."""

    def __init__(self, companion: Companion, pool: SlotPool, owners: int) -> None:
        super().__init__(companion, pool.store)
        self.pool: SlotPool = pool
        self._slots = [ABSENT] * owners

    def of(self, slots: list[int]) -> list[int]:
        own = gather(self._slots, slots)
        if ABSENT in own:
            missing = slots[own.index(ABSENT)]
            expected = f"a slot for {missing} of its owner"
            raise BrokenInvariant("O3", f"companion.{self.pool.name}", expected, "none")
        return own

    def join(self, slots: list[int], owner: Owner) -> None:
        table = self._slots
        for slot, own in zip(slots, self.pool.allocate(len(slots), owner), strict=True):
            assert table[slot] == ABSENT, (self.pool.name, slot)
            table[slot] = own

    def move(self, slots: list[int], old: Owner, new: Owner) -> None:
        self.pool.move(self.of(slots), old, new)

    def leave(self, slots: list[int], owner: Owner) -> None:
        own, table = self.of(slots), self._slots
        for slot in slots:
            table[slot] = ABSENT
        self.pool.release(own, owner)

    def entries(self) -> list[int]:
        """A copy of the table, indexed by the owner's slots, for audits."""
        return list(self._slots)


class AccompaniedStore:
    """A `Store` whose slots have companions. Whatever is written, copied or forgotten here is so
    with all of them; what is read is the owner's, as is what goes to storage and comes from it."""

    def __init__(self, bare: Store, companions: tuple[CompanionSlots, ...]) -> None:
        self.bare = bare
        self.companions = companions
        self.read = bare.read
        self.bodies = bare.bodies
        self.restore = bare.restore
        self.body_bytes = bare.body_bytes

    def write(self, slots: list[int], prints: list[int]) -> None:
        """Compute wrote the pages, and with them what belongs to them."""
        self.bare.write(slots, prints)
        for companion in self.companions:
            companion.write(slots, prints)

    def forget(self, slots: list[int]) -> None:
        self.bare.forget(slots)
        for companion in self.companions:
            companion.forget(slots)

    def take(self, other: "AccompaniedStore", source: list[int], target: list[int]) -> None:
        self.bare.take(other.bare, source, target)
        for mine, theirs in zip(self.companions, other.companions, strict=True):
            mine.take(theirs, source, target)


class AccompaniedPool(SlotPool):
    """A pool whose slots have companions."""

    def __init__(
        self,
        name: str,
        capacity: int,
        bare: Store,
        companions: tuple[CompanionSlots, ...],
        observer: Observer,
    ) -> None:
        super().__init__(name, capacity, AccompaniedStore(bare, companions), observer)
        self.bare = bare
        self.companions = companions

    def allocate(self, count: int, owner: Owner) -> list[int]:
        slots = super().allocate(count, owner)
        for companion in self.companions:
            companion.join(slots, owner)
        return slots

    def release(self, slots: list[int], owner: Owner) -> None:
        super().release(slots, owner)
        for companion in self.companions:
            companion.leave(slots, owner)

    def move(self, slots: list[int], old: Owner, new: Owner) -> None:
        super().move(slots, old, new)
        for companion in self.companions:
            companion.move(slots, old, new)


def build_pools(
    config: CacheConfig,
    observer: Observer,
    store_of: StoreMaker,
    companion_store_of: CompanionStoreMaker = companion_fingerprints,
) -> dict[tuple[Tier, Component], SlotPool]:
    """The pool of every component on every tier, with its companions beside it."""
    pools: dict[tuple[Tier, Component], SlotPool] = {}
    for component in config.components:
        for tier in Tier:
            capacity = config.pools(component)[tier]
            name = f"{tier.name.lower()}_{component.name.lower()}"
            store = store_of(tier, component, capacity)
            beside = tuple(
                _beside(name, tier, companion, capacity, companion_store_of)
                for companion in config.companions_of(component)
            )
            pools[tier, component] = (
                AccompaniedPool(name, capacity, store, beside, observer)
                if beside
                else SlotPool(name, capacity, store, observer)
            )
    return pools


def _beside(
    name: str, tier: Tier, companion: Companion, owners: int, store_of: CompanionStoreMaker
) -> CompanionSlots:
    if companion.pools is None:
        return CompanionSlots(companion, store_of(tier, companion, owners))
    capacity = companion.pools[tier]
    store = store_of(tier, companion, capacity)
    # Nobody is told of its slots: they never change hands but with those of its owner.
    pool = QueuedPool(f"{name}_{companion.name}", capacity, store, Observer())
    return OwnSlots(companion, pool, owners)
