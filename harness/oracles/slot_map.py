"""O3: the map from FULL to SWA slots is injective on live slots and holds nothing else."""

from cache.config import Component, Tier
from cache.contract import Match, Room
from cache.keys import gather
from cache.pools import Owner, SlotMap, SlotPool
from cache.table import PageTable
from cache.tree import Node
from harness.oracles.base import Oracle

ABSENT = SlotMap.ABSENT


class MapOracle(Oracle):
    """A page with a window has one entry and one without has none: on new pages of a request, on
    every node that changed, and on every slot that is given up (an entry that outlives its slot
    frees somebody else's page one day). Silent without the SWA component."""

    name = "slot_map"

    def applies(self) -> bool:
        return self.windowed

    def begin(self) -> None:
        self._map = self.cache.residency.map
        self._swa = self.cache.pools.get((Tier.DEVICE, Component.SWA))
        # By SWA slot: the FULL slot of its page.
        self._by = [ABSENT] * (self._swa.capacity if self._swa is not None else 0)
        self._dirty: dict[Node, None] = {}
        self._pages: dict[PageTable, int] = {}

    def settled(self, match: Match, table: PageTable) -> None:
        self._pages[table] = len(table.full)

    def extended(self, table: PageTable, room: Room) -> None:
        tail = table.full[self._pages.get(table, 0) :]
        if not tail:
            return
        self._pages[table] = len(table.full)
        swa = self._map.lookup(tail)
        if ABSENT in swa:
            self.report("O3", "extend.missing", "an SWA slot for every new page", swa)
            return
        taken = gather(self._by, swa)
        if len(set(swa)) != len(swa) or taken.count(ABSENT) != len(taken):
            self.report("O3", "extend.injective", "SWA slots of their own", swa)
        self._know(swa, tail)

    def stored(self, node: Node, tier: Tier, component: Component) -> None:
        if tier is Tier.DEVICE:
            self._dirty[node] = self.pending[self] = None

    filling = stored
    dropped = stored

    def releasing(self, pool: SlotPool, slots: list[int], owner: Owner) -> None:
        if pool is self.device_full:
            if (left := self._map.lookup(slots)).count(ABSENT) != len(slots):
                self.report("O3", "release.full", f"no entry for FULL slots {slots}", left)
        elif pool is self._swa:
            by = self._by
            homes = gather(by, slots)
            entries = self._map.lookup(homes) if ABSENT not in homes else []
            if entries.count(ABSENT) != len(slots):
                self._stale(slots, homes)
            for slot in slots:
                by[slot] = ABSENT

    def _stale(self, slots: list[int], homes: list[int]) -> None:
        """An entry may be somebody else's by now; it must not be that of the slot given up."""
        for slot, home in zip(slots, homes, strict=True):
            if home != ABSENT and self._map.lookup([home])[0] == slot:
                self.report("O3", "release.stale", f"no entry for SWA slot {slot}", home)

    def _know(self, swa: list[int], full: list[int]) -> None:
        by = self._by
        for slot, home in zip(swa, full, strict=False):
            by[slot] = home

    def closed(self, table: PageTable) -> None:
        self._pages.pop(table, None)

    def review(self) -> None:
        """Every node that changed, by its slots."""
        changed, self._dirty = self._dirty, {}
        for node in changed:
            full, swa = node.slots[Tier.DEVICE][:2]
            if full is None:
                continue
            entries = self._map.lookup(full)
            if swa is None:
                if entries.count(ABSENT) != len(full):
                    self.report("O3", "node.tombstone", f"no entry for {node}", entries)
                continue
            if entries != swa:
                self.report("O3", "node.entries", f"{swa} for {node}", entries)
            self._know(swa, full)

    def audited(self) -> None:
        """Injective: no SWA slot stands behind two FULL slots."""
        entries = [entry for entry in self._map.entries() if entry != ABSENT]
        if len(set(entries)) != len(entries):
            twice = next(e for e in entries if entries.count(e) > 1)
            self.report("O3", "injective", f"SWA slot {twice} once", entries.count(twice))

    def at_rest(self) -> None:
        self.audited()
