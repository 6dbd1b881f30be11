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
    backed: list[Component]  # ready on the host beside FULL


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
        self._last = Component.FULL  # what it gave up last
        self._went: list[bool] = [False] * self.width
        self._backed_up: list[Copy] = []  # by the making of room under way
        self._went_by: dict[Node, None] = {}  # its victims and what they hung below
        self._room: Room | None = None  # what came of it
        self._lost_below: set[Node] = set()  # their host copies, or children's, went meanwhile
        self._due: list[tuple[Node, Component]] = []  # to go as soon as an operation has ended
        self._pools = {c: self.cache.pools[Tier.DEVICE, c] for c in self.components}
        self._small = self.components[1:]

    def matched(self, match: Match) -> None:
        self._collect()

    def making_room(self, demand: Demand) -> None:
        self._collect()
        self._backed_up = []
        self._went_by = {}
        self._lost_below = set()
        self._demand = list(demand[: self.width])
        self._victim = None

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        if self._due and tier is Tier.DEVICE:
            self._due = [due for due in self._due if due != (node, component)]
        if tier is Tier.HOST:
            self._lost_below.add(node)
            if component is Component.FULL and node.parent is not None:
                self._lost_below.add(node.parent)  # of which that may have been the last child
        if self._demand is None or tier is Tier.HOST:
            return
        # A cascade goes from the last component down to FULL; else it is another decision.
        fresh = self._victim is None or self._victim.node is not node or self._last <= component
        self._last = component
        if fresh:
            before = self._victim
            self._end_victim()
            self._begin_victim(node, component, before)
        self._went[component] = True
        if not self._small:
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
        self._room = room
        if wanted is None:
            return
        for copy in self._backed_up:
            node = copy.lock.anchor
            self._listed(node)
            if not node.leaving and any(part.node is node for part in copy.parts):
                self.report("P2", "leaving.forgotten", f"{node} to go after {copy}", "it stays")
            elif self._cannot_go(node, copy):
                self.report("P2", "leaving.held", f"{node} to keep what its children need", "FULL")
        for node in self._went_by if self._small else ():
            if node in self._lost_below:
                continue  # only afterwards, for the sake of another one's backup
            if node.attached and self._dead_weight(node):
                expected = f"{node} gone too: its window or its state is nowhere"
                self.report("P2", "evicts.dead_weight", expected, "it stays")
        coming = self._coming()
        for component in self.components if any(room.short) else ():
            soon = coming[component]
            if room.pending[component] != soon:
                name = component.name.lower()
                expected = f"{soon} pages on their way"
                self.report("P2", f"room.pending.{name}", expected, room.pending[component])
        for component, pool in self._pools.items():
            missing = wanted[component] - pool.free_slots
            short = room.short[component]
            if short != missing and (missing > 0 or short):
                name = component.name.lower()
                self.report("P2", f"room.short.{name}", f"{max(0, missing)} short", short)
            if missing > room.pending[component]:
                self._stuck(component, missing)

    def _cannot_go(self, node: Node, backup: Copy) -> bool:
        """Whether FULL is to go with this backup, and none before it, from below its children."""
        inbound = (copy for copy in node.inbound[Tier.HOST] if copy is not None)
        if Component.FULL not in node.leaving or any(copy is not backup for copy in inbound):
            return False
        return any(child.slots[0][Component.FULL] is not None for child in node.children.values())

    def split(self, upper: Node, lower: Node) -> None:
        for node in (upper, lower):
            self._listed(node)

    def _listed(self, node: Node) -> None:
        """Who waits for a backup is in the ledger that forecasts are made from, and nobody else."""
        listed = node.number in self.cache.residency.leaving
        if listed != bool(node.leaving):
            self.report("S6", "leaving", f"{node} leaves {node.leaving}", f"listed: {listed}")

    def acknowledged(self, copy: Copy) -> None:
        """Told before the cache lets go of what waited for this copy."""
        self._collect()
        for node in {part.node.number: part.node for part in copy.parts}.values():
            if not any(node.inbound[Tier.HOST]):
                going = (c for c in node.leaving if naive.free_to_go(node, Tier.DEVICE, c))
                self._due += ((node, component) for component in going)

    def extended(self, table: PageTable, room: Room) -> None:
        """No lock keeps more than its window while a request is short of window slots, no request
        a slot for a boundary's state while another lacks one to begin; and a free one is used."""
        if self.stateful:
            self._states(table, room)
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
        """A load-back that finds no room lacks more than what is free or held by nobody, and then
        nobody gives anything up for it."""
        if result.outcome is not LoadOutcome.NO_ROOM or result.room.worth_waiting:
            return
        if result.room is self._room and self._went_by:
            victims = list(self._went_by)
            self.report("P2", "load.room.given", f"no victims: {result.room} short", victims)
        path = naive.path_of(match.anchor)
        lacks = naive.lacking(path, self.needs)
        for component, pool in self._pools.items():
            wanted = sum(self.slots(c, n.tokens) for n, c in lacks if c == component)
            nodes = self.shadows.shades.residents[Tier.DEVICE][component]
            if wanted > pool.free_slots and not self.afford(len(nodes)):
                return
            free = (n for n in nodes if not n.locks[0][component])
            loose = sum(self.slots(component, n.tokens) for n in free)
            if pool.free_slots + loose < wanted:
                return
        self.report("P2", "load.room", f"{lacks} loaded back: there is room", "no room")

    def audited(self) -> None:
        nodes = list(self.cache.tree.nodes())
        for component, pool in self._pools.items():
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

    def _states(self, table: PageTable, room: Room) -> None:
        pool, mamba = self._pools[Component.MAMBA], Component.MAMBA
        if room.short[mamba] and not room.pending[mamba]:
            for other in self.cache.tables.values():
                if other.kept is not None:
                    seen = f"kept by {other.holder}"
                    self.report("P2", "stuck.state", f"a state for {table.holder}", seen)
        if room.enough and table.kept is None and pool.free_slots:
            what = f"a slot for the next boundary's state of {table.holder}"
            self.report("P2", "stuck.keep", what, f"none, and {pool.free_slots} are free")

    # -- victims -----------------------------------------------------------------------------

    def _begin_victim(self, node: Node, component: Component, before: Victim | None) -> None:
        swept = (
            before is not None
            and before.parent is node
            and (component is Component.FULL or self._dead_without(node, component))
            and node.slots[Tier.HOST][Component.FULL] is None
        )
        pages = [0] * self.width
        pages[component] = self.slots(component, node.tokens)
        short = self._short(pages)
        parent = node.parent
        if component is Component.FULL and parent is not None and parent.leaving:
            # Until its last child went, the parent was not about to go.
            for c in self.components if not parent.kids[Tier.DEVICE] else ():
                short[c] += len(parent.slots[Tier.DEVICE][c] or ())
        if not swept and max(short) <= 0:
            self.report("P2", "evicts.met", f"no victim once {self._demand} is met", node)
        passed = [False] * len(short) if swept else self._passed(node, short)
        backed = [c for c in self._small if node.ready(Tier.HOST, c)]
        self._victim = Victim(node, node.parent, short, passed, not swept, backed)
        self._went = [False] * self.width

    def _dead_without(self, node: Node, component: Component) -> bool:
        """Whether nobody could be served at the end of a node, whatever it had of `component`."""
        return any(
            all(node.slots[tier][c] is None for tier in Tier)
            for c in self._small
            if c is not component
        )

    def _dead_weight(self, node: Node) -> bool:
        """A leaf on the device alone that nobody holds and nothing can be served through."""
        if node.children or node.slots[Tier.HOST][0] is not None:
            return False
        lost = self._dead_without(node, Component.FULL)
        return lost and naive.free_to_go(node, Tier.DEVICE, Component.FULL)

    def _end_victim(self) -> None:
        """All of a victim has gone: was it its turn, and was that much of it short?"""
        victim, self._victim = self._victim, None
        if victim is None or not victim.counts or max(victim.short) <= 0:
            return
        for node in (victim.node, victim.parent):
            if node is not None and node.parent is not None:
                self._went_by[node] = None
        small = [c for c in self._small if self._went[c]]
        if not self._went[0] and all(victim.short[c] <= 0 for c in small):
            kind = "evicts.window" if small == [Component.SWA] else "evicts.state"
            self.report("P2", kind, "nothing small while only others are short", victim.node)
        wanted = [c for c in self._small if victim.short[c] > 0]
        kept = {c for c in victim.backed if victim.node.slots[Tier.HOST][c] is not None}
        if self._went[0] and victim.short[0] <= 0 and set(wanted) <= kept:
            names = " and ".join(c.name for c in wanted)
            expected = f"FULL kept: only {names} is short and the host has this one"
            self.report("P2", "evicts.full", expected, victim.node)
        for component in self.components:
            if (
                self._went[component]
                and victim.short[component] > 0
                and not victim.passed[component]
            ):
                return
        self.report("S6", "order", "the first in order goes first", victim.node)

    def _in_part(self, node: Node) -> None:
        """FULL alone, nothing on the host: a leaf is cut, so that only what is short goes."""
        demand = self._demand
        if demand is None or node.slots[Tier.HOST][Component.FULL] is not None:
            return
        pages = node.tokens // self.page_size
        short = demand[0] - (self.device_full.free_slots - pages)
        if 0 < short < pages:
            self.report("P2", "evicts.excess", f"{short} pages evicted", pages)

    def _short(self, given: list[int] | None) -> list[int]:
        """By component, what is short and not on its way, before `given` pages became free."""
        assert self._demand is not None
        coming = self._coming()
        back, short = given or [0] * self.width, [0] * self.width
        for component, pool in self._pools.items():
            free = pool.free_slots - back[component] + coming[component]
            short[component] = self._demand[component] - free
        return short

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
            return naive.leaving_pages(queue, self.width)
        return list(self.cache.residency.leaving_pages())
