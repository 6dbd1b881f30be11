"""Who holds which slot, as seen from outside: the picture behind O1 and O2.

    free -> fresh (allocated, not yet claimed) -> request | copy -> node -> free

Invariant: it follows the hooks alone; what the pools themselves say is only ever compared with it.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum

from cache.config import Component, Tier
from cache.observer import Observer
from cache.pools import Owner, SlotPool
from cache.storage_moves import Prefetch
from cache.table import PageTable
from cache.transfers import Copy
from cache.tree import Node
from cache.unified import UnifiedCache


class Fresh(IntEnum):
    """Allocated or handed over, and not yet seen in anybody's hands."""

    NODE = Owner.NODE
    REQUEST = Owner.REQUEST
    COPY = Owner.COPY


Holder = Node | PageTable | Copy | Fresh | None
Conflict = Callable[[str, str, object, object], None]  # oracle, signature, expected, seen
KINDS: dict[Owner, tuple[type, Fresh]] = {
    Owner.NODE: (Node, Fresh.NODE),
    Owner.REQUEST: (PageTable, Fresh.REQUEST),
    Owner.COPY: (Copy, Fresh.COPY),
}
FRESH = {owner: fresh for owner, (_, fresh) in KINDS.items()}


class Hands:
    """The holders of one pool's slots."""

    __slots__ = ("component", "free", "fresh", "holders", "name", "pool", "tier")

    def __init__(self, pool: SlotPool, tier: Tier, component: Component) -> None:
        self.pool = pool
        self.name = pool.name
        self.tier = tier
        self.component = component
        self.holders: list[Holder] = [None] * pool.capacity
        self.free = pool.capacity
        self.fresh = 0  # allocated and not yet claimed

    def of(self, slots: Iterable[int]) -> set[Holder]:
        return set(map(self.holders.__getitem__, slots))

    def give(self, slots: list[int], holder: Holder) -> None:
        holders = self.holders
        for slot in slots:
            holders[slot] = holder


def _ignore(oracle: str, signature: str, expected: object, seen: object) -> None: ...


class Holdings(Observer):
    """Follows every slot; `on_conflict` is told of what cannot be."""

    def __init__(self) -> None:
        self.on_conflict: Conflict = _ignore
        self.hands: dict[SlotPool, Hands] = {}
        self.places: tuple[dict[Component, Hands], dict[Component, Hands]] = ({}, {})
        self.own: dict[PageTable, list[int]] = {}  # slots per component held by open tables
        self._pages: dict[PageTable, int] = {}

    def attach(self, cache: UnifiedCache) -> None:
        self._cache = cache
        self.windowed = Component.SWA in cache.config.components
        for (tier, component), pool in cache.pools.items():
            self.hands[pool] = Hands(pool, tier, component)
        for tier in Tier:
            for component in cache.config.components:
                self.places[tier][component] = self.hands[cache.pools[tier, component]]

    def node_of(self, slot: int) -> Node | None:
        """The node that holds a FULL slot of the device, if one does."""
        holder = self.places[Tier.DEVICE][Component.FULL].holders[slot]
        return holder if isinstance(holder, Node) else None

    def table_of(self, pool: SlotPool, slot: int) -> PageTable | None:
        holder = self.hands[pool].holders[slot]
        return holder if isinstance(holder, PageTable) else None

    # -- pools -------------------------------------------------------------------------------

    def allocated(self, pool: SlotPool, slots: list[int], owner: Owner) -> None:
        hands = self.hands[pool]
        holders, fresh = hands.holders, FRESH.get(owner)
        for slot in slots:
            if holders[slot] is not None:  # or listed twice: then it is fresh already
                expected = f"slot {slot} free"
                self.on_conflict("O1", f"allocate.{hands.name}", expected, holders[slot])
            holders[slot] = fresh
        hands.fresh += len(slots)
        hands.free -= len(slots)
        if pool.free_slots != hands.free:
            self._total(hands)

    def releasing(self, pool: SlotPool, slots: list[int], owner: Owner) -> None:
        hands = self.hands[pool]
        holders = hands.holders
        holder = holders[slots[0]]
        if len(set(slots)) != len(slots):
            self.on_conflict("O1", f"release.{hands.name}.twice", "each slot once", slots)
        elif holder is None:
            self.on_conflict("O1", f"release.{hands.name}.free", f"slots {slots} held", "free")
        elif not _is_kind(holder, owner):
            self.on_conflict("O1", f"release.{hands.name}.owner", f"{owner.name}'s slots", holder)
        elif any(holders[slot] is not holder for slot in slots):
            held = ", ".join(sorted(str(h) for h in hands.of(slots)))
            self.on_conflict("O1", f"release.{hands.name}.mixed", "slots of one holder", held)
        elif isinstance(holder, Node):
            kept = holder.slots[hands.tier][hands.component]
            if kept is not None and not set(slots).isdisjoint(kept):
                self.on_conflict("O1", f"release.{hands.name}.claimed", "given up first", holder)

    def released(self, pool: SlotPool, slots: list[int]) -> None:
        hands = self.hands[pool]
        holders = hands.holders
        holder = holders[slots[0]]
        if isinstance(holder, PageTable):
            self._leave(holder, hands, slots)
        elif isinstance(holder, Fresh) and holder is not Fresh.NODE:
            hands.fresh -= len(slots)
        for slot in slots:
            holders[slot] = None
        hands.free += len(slots)
        if pool.free_slots != hands.free:
            self._total(hands)

    def moved(self, pool: SlotPool, slots: list[int], old: Owner, new: Owner) -> None:
        if not slots:
            return
        hands = self.hands[pool]
        holders, fresh = hands.holders, FRESH[new]
        first = holders[slots[0]]
        if isinstance(first, PageTable):
            self._leave(first, hands, slots)
        odd = None if _is_kind(first, old) else slots[0]
        for slot in slots:
            if holders[slot] is not first:
                odd = slot
            holders[slot] = fresh
        if odd is not None:
            expected = f"slot {odd} of one {old.name}"
            self.on_conflict("O1", f"move.{hands.name}", expected, f"not {first}'s")

    # -- who claims them -----------------------------------------------------------------------

    def stored(self, node: Node, tier: Tier, component: Component) -> None:
        hands = self.places[tier][component]
        holders = hands.holders
        for slot in node.slots[tier][component] or ():
            holder = holders[slot]
            if holder is not Fresh.NODE and holder is not node:
                expected = f"slot {slot} handed to {node}"
                self.on_conflict("O1", f"stored.{hands.name}", expected, holder)
            holders[slot] = node

    def settled(self, match: object, table: PageTable) -> None:
        self._pages[table] = len(table.full)
        self.own[table] = [0] * len(Component)

    def extended(self, table: PageTable, room: object) -> None:
        tail = table.full[self._pages.get(table, 0) :]
        if not tail:
            return
        self._pages[table] = len(table.full)
        device = self.places[Tier.DEVICE]
        self._claim(device[Component.FULL], tail, table)
        if self.windowed:
            mapped = [s for s in self._cache.residency.map.lookup(tail) if s >= 0]
            self._claim(device[Component.SWA], mapped, table)

    def took_state(self, table: PageTable, slot: int) -> None:
        self._claim(self.places[Tier.DEVICE][Component.MAMBA], [slot], table)

    def issued(self, copy: Copy) -> None:
        for node, component, source, target in copy.parts:
            hands = self.places[copy.target][component]
            if hands.of(target) != _FRESH_COPY:
                self.on_conflict("O1", f"copy.{hands.name}", "fresh target slots", hands.of(target))
            hands.give(target, copy)
            hands.fresh -= len(target)
            sources = self.places[copy.source][component]
            if sources.of(source) - {node, Fresh.NODE}:
                held = sources.of(source)
                self.on_conflict("O1", f"source.{sources.name}", f"slots of {node}", held)

    def prefetch_reserved(self, prefetch: Prefetch) -> None:
        for component, held in prefetch.held.items():
            hands, slots = self.places[Tier.HOST][component], list(held.values())
            if slots and hands.of(slots) != _FRESH_COPY:
                seen = hands.of(slots)
                self.on_conflict("O1", f"prefetch.{hands.name}", "fresh target slots", seen)
            hands.give(slots, prefetch)
            hands.fresh -= len(slots)

    def split(self, upper: Node, lower: Node) -> None:
        for tier in (Tier.DEVICE, Tier.HOST):
            for hands in self.places[tier].values():
                slots = upper.slots[tier][hands.component]
                if slots and hands.holders[slots[0]] is lower:
                    hands.give(slots, upper)

    def closed(self, table: PageTable) -> None:
        self._pages.pop(table, None)
        self.own.pop(table, None)

    # -- helpers -----------------------------------------------------------------------------

    def _claim(self, hands: Hands, slots: list[int], table: PageTable) -> None:
        holders = hands.holders
        for slot in slots:
            if holders[slot] is not Fresh.REQUEST:
                expected = f"slot {slot} fresh"
                self.on_conflict("O1", f"extend.{hands.name}", expected, holders[slot])
            holders[slot] = table
        hands.fresh -= len(slots)
        self.own[table][hands.component] += len(slots)

    def _leave(self, table: PageTable, hands: Hands, slots: list[int]) -> None:
        """Slots leave the hands of a request; a mixed lot has been reported."""
        held = self.own.get(table)
        if held is not None:
            held[hands.component] -= len(slots)

    def _total(self, hands: Hands) -> None:
        expected, hands.free = hands.free, hands.pool.free_slots
        self.on_conflict("O2", f"total.{hands.name}", f"{expected} free slots", hands.free)


_FRESH_COPY: set[Holder] = {Fresh.COPY}


def _is_kind(holder: Holder, owner: Owner) -> bool:
    kind, fresh = KINDS.get(owner, (type(None), None))
    return isinstance(holder, kind) or holder is fresh
