"""O1, O2: every slot has exactly one owner."""

from cache.config import Component, Tier
from cache.contract import Commit
from cache.pools import Owner, SlotPool
from cache.table import PageTable
from cache.transfers import Copy
from cache.tree import Node
from harness.oracles.base import Oracle
from harness.oracles.holdings import Fresh, Hands, Holder


class Ownership(Oracle):
    """Every slot is free or held by one node, request or copy; whoever gives it up held it; nothing
    is lost on the way; free slots add up after every change. Silent about slots whose holder it
    was never told (a node that was never published)."""

    name = "ownership"

    def begin(self) -> None:
        self.shadows.holdings.on_conflict = self.report
        self._hands = list(self.shadows.holdings.hands.values())

    def allocated(self, pool: SlotPool, slots: list[int], owner: Owner) -> None:
        self.pending[self] = None

    def review(self) -> None:
        """Whatever was allocated is in somebody's hands."""
        for hands in self._hands:
            if hands.fresh:
                seen, hands.fresh = hands.fresh, 0
                self.report("O1", f"unclaimed.{hands.name}", "every slot claimed", f"{seen} not")

    def committed(self, table: PageTable, result: Commit) -> None:
        holdings = self.shadows.holdings
        held = holdings.own.get(table)
        if held is None:
            return
        self._own(table, held[0], len(table.full) - table.shared, 0)
        own = table.full[table.shared :]
        holders = holdings.places[Tier.DEVICE][Component.FULL].of(own)
        if own and holders != {table}:
            seen = ", ".join(sorted(str(h) for h in holders))
            self.report("O1", "request.foreign", f"own pages of {table.holder}", seen)
        if self.windowed:
            windowed = len(table.full) - max(table.shared, table.swa_from)
            self._own(table, held[1], windowed, 1)
        self._states(table, held)

    def audited(self) -> None:
        holdings = self.shadows.holdings
        nodes = list(self.cache.tree.nodes())
        for hands in holdings.hands.values():
            self._claims(hands, nodes)
        for table, held in holdings.own.items():
            if table.number not in self.cache.tables:
                continue
            self._own(table, held[0], len(table.full) - table.shared, 0)
            self._states(table, held)

    def at_rest(self) -> None:
        self.audited()
        for hands in self.shadows.holdings.hands.values():
            kept = [h for h in hands.holders if h is not None and not isinstance(h, Node | Fresh)]
            if kept or hands.fresh:
                seen = kept[0] if kept else f"{hands.fresh} that nobody claims"
                self.report("O1", f"leak.{hands.name}", "slots of nodes only", seen)

    def _states(self, table: PageTable, held: list[int]) -> None:
        own = sum(slot is not None for slot in (table.state, table.kept))
        self._own(table, held[Component.MAMBA], own, Component.MAMBA)

    def _own(self, table: PageTable, held: int, expected: int, component: int) -> None:
        if held != expected:
            what = "kept" if held > expected else "lost"
            name = Component(component).name.lower()
            self.report("O1", f"request.{what}.{name}", f"{expected} slots of {table.holder}", held)

    def _claims(self, hands: Hands, nodes: list[Node]) -> None:
        """What nodes say is theirs is what was seen to become theirs."""
        tier, component = hands.tier, hands.component
        claimed: list[Holder] = [None] * len(hands.holders)
        for node in nodes:
            filling = node.inbound[tier][component]
            for slot in node.slots[tier][component] or ():
                claimed[slot] = node if filling is None else filling
        if tier is Tier.HOST and self.cache.storage is not None:
            for prefetch in self.cache.storage.prefetches.live.values():
                for slot in prefetch.held.get(component, {}).values():
                    claimed[slot] = prefetch
        for slot, (says, seen) in enumerate(zip(claimed, hands.holders, strict=True)):
            if says is seen or seen is Fresh.NODE:
                continue
            if says is not None or isinstance(seen, Node | Copy):
                self.report("O1", f"claim.{hands.name}", f"slot {slot} of {says}", seen)
                return
        free = sorted(hands.pool.free_list())
        if free != [slot for slot, holder in enumerate(hands.holders) if holder is None]:
            self.report("O2", f"free.{hands.name}", "each free slot once", free)
