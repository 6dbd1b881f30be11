"""M2 on the way to the host: what the policy wants kept is kept."""

from cache.config import Component, Tier, WritePolicy
from cache.contract import Commit, Demand, Match, Room
from cache.table import PageTable
from cache.transfers import Copy
from cache.tree import Node
from harness.oracles import naive
from harness.oracles.base import Oracle

Piece = tuple[Node, Component]


class Backups(Oracle):
    """Under the write-through policies a node that was used, and is due by hits counted anew, has
    everything that is ready on the device on the host or on its way there, unless the host had no
    room that eviction could free; and is not backed up before it is due. A victim whose host copy
    lacks the window or the state (the only one) is backed up first, under `write_back` every victim
    without a host copy, unless there was no room. Silent without a host, and about losses on the
    host."""

    name = "backups"

    def applies(self) -> bool:
        return self.cache.config.hierarchical

    def begin(self) -> None:
        policy = self.cache.config.write_policy
        self._back = policy is WritePolicy.WRITE_BACK
        self._due = 1 if policy is WritePolicy.WRITE_THROUGH else 2
        self._making = False
        self._host_drops: set[Node] = set()  # within the operation
        self._small = self.components[1:]
        self._lost: dict[Component, Node] = {}  # by the victim that is going now
        self._cut: dict[Node, int] = {}  # pages before the node was cut, within make_room
        self.only_copies_dropped = 0

    def settled(self, match: Match, table: PageTable) -> None:
        self._check()

    def committed(self, table: PageTable, result: Commit) -> None:
        self._check()

    def closed(self, table: PageTable) -> None:
        self._check()

    def matched(self, match: Match) -> None:
        self._host_drops.clear()

    def acknowledged(self, copy: Copy) -> None:
        self._host_drops.clear()

    def making_room(self, demand: Demand) -> None:
        self._making = True
        self._lost.clear()
        self._cut.clear()

    def made_room(self, demand: Demand, room: Room) -> None:
        self._making = False
        self._host_drops.clear()

    def split(self, upper: Node, lower: Node) -> None:
        if self._making:
            pages = (upper.tokens + lower.tokens) // self.page_size
            self._cut[lower] = max(pages, self._cut.get(lower, 0))

    def issued(self, copy: Copy) -> None:
        if copy.target is not Tier.HOST or self._making:
            return
        node = copy.lock.anchor
        if self._back:
            self.report("M2", "policy.used", "no backup before eviction", f"{copy} of {node}")
        elif (hits := self.shadows.shades.of(node).hits + 1) < self._due:
            self.report(
                "M2", "policy.early", f"no backup of {node} before its hit {self._due}", hits
            )

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        if tier is Tier.HOST:
            self._host_drops.add(node)
        elif self._making:
            if component is not Component.FULL:
                self._lost[component] = node
                self._small_dropped(node, component)
            else:
                if self._back and node.slots[Tier.HOST][Component.FULL] is None:
                    self._victim_dropped(node)
                self._lost.clear()

    # -- what should have been kept ------------------------------------------------------------

    def _small_dropped(self, node: Node, component: Component) -> None:
        host = node.slots[Tier.HOST]
        coming = node.inbound[Tier.HOST][Component.FULL]
        if host[0] is None or host[component] is not None or (coming and coming.doomed):
            return
        # What it lacks beside goes in the same copy, all of it or none.
        gone = [c for c, n in self._lost.items() if n is node and host[c] is None]
        lacking = dict.fromkeys([*gone, *(c for _, c in self._lacking(node))])
        slots = {c: self.slots(c, node.tokens) for c in lacking}
        if all(self._room(c, {node}, n) >= n for c, n in slots.items()):
            what = "window" if component is Component.SWA else "state"
            expected = f"the only {what} of {node} backed up: there was room for {slots}"
            kind = "only_copy" if component is Component.SWA else "only_copy.state"
            self.report("M2", kind, expected, "dropped")
        else:
            self.only_copies_dropped += 1

    def _victim_dropped(self, node: Node) -> None:
        """It took its window and its state along a moment ago; without one of them it may be mere
        dead weight."""
        if any(self._lost.get(component) is not node for component in self._small):
            return
        pages = self._cut.get(node, node.tokens // self.page_size)
        if self._room(Component.FULL, set(naive.path_of(node)), pages) < pages:
            return
        for component in self._small:
            slots = 1 if component is Component.MAMBA else pages
            if self._room(component, {node}, slots) < slots:
                return
        expected = f"{node} backed up: there was room for {pages} pages"
        self.report("M2", "victim", expected, "dropped")

    def _check(self) -> None:
        """Everything that the latest use counted is backed up as its policy says."""
        counted = self.shadows.shades.counted
        if counted and not self._back:
            for node in counted:
                if any(node.slots[Tier.HOST][c] is None for c in self.components):
                    self._should_be_kept(node)
        self._host_drops.clear()

    def _should_be_kept(self, node: Node) -> None:
        if self.shadows.shades.of(node).hits < self._due or node in self._host_drops:
            return
        pieces = self._missing(node)
        if not pieces:
            return
        held = set(naive.path_of(node))
        swa_held = {n for n in held if n.start >= min(p.start for p, _ in pieces)}
        for component in self.components:
            pages = sum(self.slots(c, n.tokens) for n, c in pieces if c is component)
            here = held if component is Component.FULL else swa_held
            if self._room(component, here, pages) < pages:
                return
        self.report("M2", "unkept", f"{pieces} backed up: the host has room", "not even in flight")

    def _missing(self, node: Node) -> list[Piece]:
        """What a backup of `node` has to bring; nothing if it cannot be made."""
        pieces = self._lacking(node)
        for above in reversed(naive.path_of(node)[:-1]):
            if not pieces or above.slots[Tier.HOST][Component.FULL] is not None:
                break
            lacking = self._lacking(above)
            if (above, Component.FULL) not in lacking:
                return []
            pieces += lacking
        return pieces

    def _lacking(self, node: Node) -> list[Piece]:
        return [
            (node, c)
            for c in self.components
            if node.slots[Tier.HOST][c] is None and node.ready(Tier.DEVICE, c)
        ]

    def _room(self, component: Component, held: set[Node], wanted: int) -> int:
        """Host pages free or to be freed, up to `wanted`; 0 where it costs too much to tell."""
        free = self.cache.pools[Tier.HOST, component].free_slots
        if free >= wanted:
            return free
        nodes = self.shadows.shades.residents[Tier.HOST][component]
        if not self.afford(len(nodes)):
            return 0
        return free + naive.host_room(nodes, component, held, wanted - free)
