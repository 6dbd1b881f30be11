"""P2, P3: making room frees what is short, in order, and no more; in the end everything is free."""

from typing import NamedTuple

from cache.config import Component, Tier
from cache.contract import Demand, LoadBack, LoadOutcome, Match, Room
from cache.locks import NOT_HELD
from cache.pools import SlotMap
from cache.table import PageTable
from cache.transfers import Copy
from cache.tree import Node
from harness.oracles import naive
from harness.oracles.base import Oracle


class Victim(NamedTuple):
    """A node that is giving up device slots, and how things stood before it did."""

    node: Node
    parent: Node | None
    short: list[int]  # by component, beyond what copies in flight will free
    passed: list[bool]  # by component, whether another one was due before it
    counts: bool  # False for dead weight that went with the victim before
    backed: bool  # its window is ready on the host


class Progress(Oracle):
    """While room is made, victims go only as long as something is short that copies in flight will
    not bring, the first in order first (S6); a lone FULL leaf goes in part. When room stays short,
    nothing that copies will not cover is left to go, no lock keeps more than its window, and `Room`
    says what is short and pending (P2). A victim that waited for its backup goes when that is over,
    and leaves that lost their window for good go at once (P2). The admission budget is what is free
    or may go. After the last flush every slot is free, the map empty and the tree bare (P3). Silent
    about order where scanning costs too much."""

    name = "progress"

    def begin(self) -> None:
        self._demand: list[int] | None = None
        self._victim: Victim | None = None
        self._went: list[bool] = [False, False]
        self._backed_up: list[Copy] = []  # by the making of room under way
        self._went_by: dict[Node, None] = {}  # its victims and what they hung below
        self._due: list[tuple[Node, Component]] = []  # to go as soon as an operation has ended
        self._pools = [self.cache.pools[Tier.DEVICE, c] for c in self.components]

    def matched(self, match: Match) -> None:
        self._collect()

    def making_room(self, demand: Demand) -> None:
        self._collect()
        self._backed_up = []
        self._went_by = {}
        self._demand = list(demand[: len(self.components)])
        self._victim = None

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        if self._demand is None or tier is Tier.HOST:
            return
        if self._victim is None or self._victim.node is not node:
            before = self._victim
            self._end_victim()
            self._begin_victim(node, component, before)
        self._went[component] = True
        if not self.windowed:
            self._in_part(node)

    def issued(self, copy: Copy) -> None:
        """A backup within make_room: its node will go when it has landed."""
        if self._demand is None or copy.target is not Tier.HOST:
            return
        self._backed_up.append(copy)
        if max(self._short(None)) <= 0:
            self.report("P2", "backs_up.met", f"no victim once {self._demand} is met", copy)

    def made_room(self, demand: Demand, room: Room) -> None:
        self._end_victim()
        wanted, self._demand = self._demand, None
        if wanted is None:
            return
        for copy in self._backed_up:
            node = copy.lock.anchor
            if node.leaving is None and any(part.node is node for part in copy.parts):
                self.report("P2", "leaving.forgotten", f"{node} to go after {copy}", "it stays")
        for node in self._went_by if self.windowed else ():
            if node.attached and _dead_weight(node):
                expected = f"{node} gone too: its window is nowhere"
                self.report("P2", "evicts.dead_weight", expected, "it stays")
        coming = self._coming()
        for component, soon in enumerate(coming if any(room.short) else ()):
            if room.pending[component] != soon:
                name = Component(component).name.lower()
                expected = f"{soon} pages on their way"
                self.report("P2", f"room.pending.{name}", expected, room.pending[component])
        for component, pool in enumerate(self._pools):
            missing = wanted[component] - pool.free_slots
            short = room.short[component]
            if short != missing and (missing > 0 or short):
                name = Component(component).name.lower()
                self.report("P2", f"room.short.{name}", f"{max(0, missing)} short", short)
            if missing > room.pending[component]:
                self._stuck(Component(component), missing)

    def acknowledged(self, copy: Copy) -> None:
        """Told before the cache lets go of what waited for this copy."""
        self._collect()
        for node in {part.node.number: part.node for part in copy.parts}.values():
            component = node.leaving
            if component is None or any(node.inbound[Tier.HOST]):
                continue
            if naive.free_to_go(node, Tier.DEVICE, component):
                self._due.append((node, component))

    def extended(self, table: PageTable, room: Room) -> None:
        """No lock keeps more than its window while a request is short of window slots."""
        if not self.windowed or not room.short[Component.SWA] or room.pending[Component.SWA]:
            return
        for other in self.cache.tables.values():
            lock = other.lock
            if lock is None or lock.reach[Component.SWA] == NOT_HELD:
                continue
            start = self.needed_from(lock.anchor.end)
            if lock.reach[Component.SWA] < start:
                self.report("P2", "stuck.lock", f"{lock} cut at {start}", lock.reach)

    def loaded_back(self, match: Match, result: LoadBack) -> None:
        """A load-back that finds no room lacks more than what is free or held by nobody."""
        if result.outcome is not LoadOutcome.NO_ROOM or result.room.worth_waiting:
            return
        path = naive.path_of(match.anchor)
        lacks = naive.lacking(path, self.window, self.page_size)
        for component, pool in zip(self.components, self._pools, strict=True):
            wanted = sum(n.tokens // self.page_size for n, c in lacks if c == component)
            nodes = self.shadows.shades.residents[Tier.DEVICE][component]
            if wanted > pool.free_slots and not self.afford(len(nodes)):
                return
            loose = sum(n.tokens // self.page_size for n in nodes if not n.locks[0][component])
            if pool.free_slots + loose < wanted:
                return
        self.report("P2", "load.room", f"{lacks} loaded back: there is room", "no room")

    def audited(self) -> None:
        nodes = list(self.cache.tree.nodes())
        for component, pool in zip(self.components, self._pools, strict=True):
            loose = (n for n in nodes if not n.locks[0][component])
            pages = pool.free_slots + sum(len(n.slots[0][component] or ()) for n in loose)
            seen = self.cache.available(component)
            if seen != pages:
                self.report("P2", f"available.{component.name.lower()}", f"{pages} pages", seen)

        for node in nodes:
            shade = self.shadows.shades.of(node)
            if (node.hits, node.priority) != (shade.hits, shade.priority):
                expected = f"{node} hit {shade.hits} times, priority {shade.priority}"
                self.report("S6", "uses", expected, f"{node.hits} and {node.priority}")

    def at_rest(self) -> None:
        self._collect()
        self.audited()
        for node in self.cache.residency.leaving.values():
            self.report("P2", "leaving", f"{node} gone when its backup had landed", "still there")

    def flushed_at_rest(self, *, done: bool) -> None:
        """After the last flush of all; `done` is what it returned."""
        if not done:
            self.report("P3", "flush.refused", "a flush at rest", "refused")
            return
        for pool in self.cache.pools.values():
            free = pool.free_list()
            if len(free) != pool.capacity or len(set(free)) != pool.capacity:
                self.report("P3", f"flush.{pool.name}", f"{pool.capacity} free slots", len(free))
        if self.cache.tree.root.children:
            self.report("P3", "flush.tree", "a bare root", len(self.cache.tree.root.children))
        left = [entry for entry in self.cache.residency.map.entries() if entry != SlotMap.ABSENT]
        if left:
            self.report("P3", "flush.map", "an empty map", left)

    def flushed(self) -> None:
        """A flush, any flush, touches nothing that is held."""
        if len(self.cache.locks) or self.cache.tables or len(self.cache.transfers):
            self.report("P3", "flush.held", "refused while anything is held", "done")

    def _collect(self) -> None:
        """What was to go when its backup was over is gone, or somebody holds it by now."""
        due, self._due = self._due, []
        for node, component in due:
            if node.attached and naive.free_to_go(node, Tier.DEVICE, component):
                self.report("P2", "leaving.stays", f"{node} gone: its backup is over", "it stays")

    # -- victims -----------------------------------------------------------------------------

    def _begin_victim(self, node: Node, component: Component, before: Victim | None) -> None:
        swept = (
            before is not None
            and before.parent is node
            and component is Component.FULL
            and node.slots[Tier.HOST][Component.FULL] is None
        )
        pages = [0] * len(self.components)
        pages[component] = node.tokens // self.page_size
        short = self._short(pages)
        parent = node.parent
        if component is Component.FULL and parent is not None and parent.leaving is not None:
            # Until its last child went, the parent was not about to go.
            for c in self.components if not parent.kids[Tier.DEVICE] else ():
                short[c] += len(parent.slots[Tier.DEVICE][c] or ())
        if not swept and max(short) <= 0:
            self.report("P2", "evicts.met", f"no victim once {self._demand} is met", node)
        passed = [False] * len(short) if swept else self._passed(node, short)
        backed = self.windowed and node.ready(Tier.HOST, Component.SWA)
        self._victim = Victim(node, node.parent, short, passed, not swept, backed)
        self._went = [False, False]

    def _end_victim(self) -> None:
        """All of a victim has gone: was it its turn, and was that much of it short?"""
        victim, self._victim = self._victim, None
        if victim is None or not victim.counts or max(victim.short) <= 0:
            return
        for node in (victim.node, victim.parent):
            if node is not None and node.parent is not None:
                self._went_by[node] = None
        went_full, went_swa = self._went
        if not went_full and victim.short[Component.SWA] <= 0:
            self.report("P2", "evicts.window", "no window while only FULL is short", victim.node)
        if went_full and victim.backed and victim.short[Component.FULL] <= 0:
            expected = "FULL kept: only windows are short and the host has this one"
            self.report("P2", "evicts.full", expected, victim.node)
        for component in self.components:
            gone = went_full if component is Component.FULL else went_swa
            if gone and victim.short[component] > 0 and not victim.passed[component]:
                return
        self.report("S6", "order", "the first in order goes first", victim.node)

    def _in_part(self, node: Node) -> None:
        """FULL alone, nothing on the host: a leaf is cut, so that only what is short goes."""
        demand = self._demand
        if demand is None or node.slots[Tier.HOST][Component.FULL] is not None:
            return
        pages = node.tokens // self.page_size
        short = demand[0] - (self._pools[0].free_slots - pages)
        if 0 < short < pages:
            self.report("P2", "evicts.excess", f"{short} pages evicted", pages)

    def _short(self, given: list[int] | None) -> list[int]:
        """By component, what is short and not on its way, before `given` pages became free."""
        assert self._demand is not None
        coming = self._coming()
        back = given or [0] * len(self.components)
        return [
            wanted - (pool.free_slots - freed) - soon
            for wanted, pool, freed, soon in zip(
                self._demand, self._pools, back, coming, strict=True
            )
        ]

    def _passed(self, victim: Node, short: list[int]) -> list[bool]:
        """By component that is short, whether a candidate was due before `victim`."""
        shades, passed = self.shadows.shades, [False] * len(short)
        for component in self.components:
            nodes = shades.residents[Tier.DEVICE][component]
            if short[component] > 0 and self.afford(len(nodes)):
                rank = shades.rank(victim, component)
                passed[component] = any(
                    node is not victim
                    and node is not victim.parent
                    and shades.rank(node, component) < rank
                    and naive.free_to_go(node, Tier.DEVICE, component)
                    for node in nodes
                )
        return passed

    def _stuck(self, component: Component, short: int) -> None:
        nodes = self.shadows.shades.residents[Tier.DEVICE][component]
        if not self.afford(len(nodes)):
            return
        left = next(naive.evictable(nodes, Tier.DEVICE, component), None)
        if left is not None:
            name = component.name.lower()
            self.report(
                "P2", f"stuck.{name}", f"{left} evicted: it is free to go", f"{short} short"
            )

    def _coming(self) -> list[int]:
        """By component, the pages that victims give up when their backups in flight are over."""
        queue = self.cache.transfers.queues[Tier.HOST]
        if self.afford(sum(len(copy.parts) for copy in queue)):
            return naive.leaving_pages(queue, len(self.components))
        return list(self.cache.residency.leaving_pages())


def _dead_weight(node: Node) -> bool:
    """A leaf on the device alone that nobody holds and nothing can be served through."""
    if node.children or any(slots[Component.SWA] is not None for slots in node.slots):
        return False
    return node.slots[Tier.HOST][0] is None and naive.free_to_go(node, Tier.DEVICE, Component.FULL)
