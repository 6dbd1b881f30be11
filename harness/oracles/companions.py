"""O3, M1, C1, C2 of companions: whatever belongs to a slot is there with it, and is its own."""

from cache.companions import ABSENT, CompanionSlots, OwnSlots
from cache.config import Component, Tier
from cache.contract import Match, Reading
from cache.keys import UNWRITTEN, gather
from cache.pools import Owner, SlotPool
from cache.table import PageTable
from cache.transfers import Copy
from cache.tree import Node
from harness.oracles import naive
from harness.oracles.base import Oracle

Besides = tuple[CompanionSlots, ...]


class Companions(Oracle):
    """Where a companion has slots of its own, a slot of its owner that is in use has exactly one of
    them, which nobody else has, and a free one none: after every operation that changed some (O3),
    and in the same hands (O1). A prefix that is found on a tier is there with all its companions
    (M1). What a companion holds belongs to the page or state of its slot, when it is read, copied
    from, copied on write, published and kept (C1, C2). Silent about what nobody reads, copies or
    publishes until the next audit."""

    name = "companions"

    def applies(self) -> bool:
        return bool(self.cache.config.companions)

    def begin(self) -> None:
        self._touched: dict[SlotPool, dict[int, None]] = {}
        self._gone: dict[OwnSlots, dict[int, None]] = {}  # of its slots, those that were let go
        self._of = {pool: pool.companions for pool in self.cache.pools.values() if pool.companions}
        self._own = {pool: _own(besides) for pool, besides in self._of.items()}

    # -- pairs -----------------------------------------------------------------------------------

    def allocated(self, pool: SlotPool, slots: list[int], owner: Owner) -> None:
        if self._own.get(pool):
            self._touch(pool, slots)

    def moved(self, pool: SlotPool, slots: list[int], old: Owner, new: Owner) -> None:
        if self._own.get(pool):
            self._touch(pool, slots)

    def releasing(self, pool: SlotPool, slots: list[int], owner: Owner) -> None:
        for beside in self._own.get(pool, ()):
            mine = gather(beside.entries(), slots)
            self._gone.setdefault(beside, {}).update(dict.fromkeys(mine))
        if self._own.get(pool):
            self._touch(pool, slots)

    def review(self) -> None:
        """Every slot that changed hands has what it should have, and what it had is free."""
        touched, self._touched = self._touched, {}
        for pool, slots in touched.items():
            for beside in self._own[pool]:
                self._pair(pool, beside, list(slots))
        gone, self._gone = self._gone, {}
        for beside, mine in gone.items():
            self._let_go(beside, [slot for slot in mine if slot != ABSENT])

    def _touch(self, pool: SlotPool, slots: list[int]) -> None:
        self._touched.setdefault(pool, {}).update(dict.fromkeys(slots))
        self.pending[self] = None

    def _pair(self, pool: SlotPool, beside: OwnSlots, slots: list[int]) -> None:
        own, entries = beside.pool, beside.entries()
        for slot in slots:
            owner, mine = pool.owner(slot), entries[slot]
            if owner is Owner.FREE and mine != ABSENT:
                self.report("O3", f"companion.stale.{own.name}", f"none for free slot {slot}", mine)
            elif owner is not Owner.FREE and mine == ABSENT:
                self.report("M1", f"companion.lacking.{own.name}", f"one for slot {slot}", "none")
            elif owner is not Owner.FREE and own.owner(mine) is not owner:
                expected, seen = f"slot {mine} owned by {owner.name}", own.owner(mine).name
                self.report("O1", f"companion.{own.name}", expected, seen)
            elif mine != ABSENT and entries.count(mine) > 1:
                self.report("O3", f"companion.twice.{own.name}", f"slot {mine} for {slot}", "more")
        if own.used_slots != pool.used_slots:
            expected = f"{pool.used_slots} slots in use"
            self.report("O2", f"companion.total.{own.name}", expected, own.used_slots)

    def _let_go(self, beside: OwnSlots, mine: list[int]) -> None:
        taken = set(beside.entries())
        for slot in mine:
            if slot not in taken and beside.pool.owner(slot) is not Owner.FREE:
                expected = f"slot {slot} free with its owner's"
                self.report("O1", f"companion.kept.{beside.pool.name}", expected, "in use")

    # -- completeness ----------------------------------------------------------------------------

    def matched(self, match: Match) -> None:
        """Nothing counts as found that has lost one of its companions."""
        for node in naive.path_of(match.anchor):
            for place, pool in self.cache.pools.items():
                slots = node.slots[place[0]][place[1]]
                for beside in self._own.get(pool, ()) if slots else ():
                    if ABSENT in gather(beside.entries(), slots or []):
                        self.report("M1", f"companion.match.{beside.pool.name}", f"{node}", "less")

    # -- content ---------------------------------------------------------------------------------

    def running(self, copy: Copy) -> None:
        """The source, as the bytes are about to move."""
        for node, component, source, _ in copy.parts:
            pool = self.cache.pools[copy.source, component]
            self._belongs(pool, source, self.named(node, component), f"copy.{copy.kind}", str(node))

    def stored(self, node: Node, tier: Tier, component: Component) -> None:
        pool, slots = self.cache.pools[tier, component], node.slots[tier][component]
        if slots is not None:
            self._belongs(pool, slots, self.named(node, component), "stored", str(node))

    def forked(self, table: PageTable, node: Node) -> None:
        self._own_state(table, "fork")

    def reading(self, table: PageTable, tokens: int, reading: Reading) -> None:
        """As many as there are companions, each with what belongs to the pages that are read."""
        read = (reading.full, reading.swa, [reading.state] if reading.state else [])
        besides = [(c, b) for c in self.components for b in self._beside(Tier.DEVICE, c)]
        if len(reading.companions) != len(besides):
            self.report("M1", "companion.read", f"{len(besides)} companions", reading.companions)
            return
        for (component, beside), seen in zip(besides, reading.companions, strict=True):
            self._compare(f"read.{beside.name}", read[component], seen, table.holder)

    def audited(self) -> None:
        for pool, besides in self._own.items():
            for beside in besides:
                self._pair(pool, beside, list(range(pool.capacity)))
        for node in self.cache.tree.nodes():
            for tier, component in self.cache.pools:
                if node.inbound[tier][component] is None:
                    self.stored(node, tier, component)
        for table in self.cache.tables.values():
            self._own_state(table, "own")

    def at_rest(self) -> None:
        self.audited()

    def _own_state(self, table: PageTable, what: str) -> None:
        pool = self.cache.pools.get((Tier.DEVICE, Component.MAMBA))
        if pool is None or table.state is None or not table.forked:
            return
        slots = [table.state]
        self._belongs(pool, slots, pool.bare.read(slots), what, table.holder)

    def _beside(self, tier: Tier, component: Component) -> Besides:
        return self._of.get(self.cache.pools[tier, component], ())

    def _belongs(
        self, pool: SlotPool, slots: list[int], expected: list[int], what: str, whose: str
    ) -> None:
        for beside in self._of.get(pool, ()):
            if isinstance(beside, OwnSlots) and ABSENT in gather(beside.entries(), slots):
                signature = f"companion.{what}.{pool.name}.{beside.name}"
                self.report("M1", signature, f"a slot for each of {whose}", "less")
                continue
            self._compare(f"{what}.{pool.name}.{beside.name}", expected, beside.read(slots), whose)

    def _compare(self, what: str, expected: list[int], seen: list[int], whose: str) -> None:
        if expected == seen:
            return
        at = next((i for i, (a, b) in enumerate(zip(expected, seen, strict=False)) if a != b), -1)
        if at < 0:
            self.report("M1", f"companion.{what}", f"{len(expected)} for {whose}", len(seen))
            return
        oracle = "C2" if seen[at] == UNWRITTEN else "C1"
        wanted = f"{expected[at]:016x} at page {at} for {whose}"
        self.report(oracle, f"companion.{what}", wanted, f"{seen[at]:016x}")


def _own(besides: Besides) -> tuple[OwnSlots, ...]:
    return tuple(beside for beside in besides if isinstance(beside, OwnSlots))
