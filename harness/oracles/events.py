"""E1: whoever follows the published events knows exactly what is cached where."""

from cache.config import Component, Tier
from cache.contract import Commit
from cache.events import EventLog, Happening, KvEvent
from cache.pools import Owner, SlotPool
from cache.table import PageTable
from cache.transfers import Copy, CopyState
from cache.tree import Node
from harness.oracles.base import Oracle


class Events(Oracle):
    """Rebuilds the content of every tier and component from the published events. Nothing is
    published twice or taken back unseen; after an operation, what it made ready is published and
    what it gave up is not; at audits the whole equals the tree."""

    name = "events"

    def begin(self) -> None:
        self.log = EventLog(self._follow)
        self.log.attach(self.cache.tree)
        tiers = (Tier.DEVICE, Tier.HOST)
        self._seen: dict[tuple[Tier, Component], set[int]] = {
            (tier, component): set() for tier in tiers for component in self.components
        }
        self._given_up: list[tuple[Tier, Component, list[int]]] = []
        self._added: list[Node] = []

    def stored(self, node: Node, tier: Tier, component: Component) -> None:
        if self._given_up:
            self._check_given_up()
        self.log.stored(node, tier, component)

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        self.log.dropped(node, tier, component)

    def _follow(self, event: KvEvent) -> None:
        seen = self._seen[event.tier, event.component]
        where = f"{event.tier.name}_{event.component.name}".lower()
        if event.kind is Happening.STORED:
            if not seen.isdisjoint(event.prints):
                self.report("E1", f"stored.twice.{where}", "pages not published before", event)
            seen.update(event.prints)
            return
        if not seen.issuperset(event.prints):
            self.report("E1", f"removed.unseen.{where}", "pages published before", event)
        seen.difference_update(event.prints)

    # -- by what changed -------------------------------------------------------------------------

    def releasing(self, pool: SlotPool, slots: list[int], owner: Owner) -> None:
        if self._given_up:
            self._check_given_up()
        if owner is not Owner.NODE:
            return
        hands = self.shadows.holdings.hands[pool]
        node = hands.holders[slots[0]]
        if isinstance(node, Node):
            prints = self.named(node, hands.component)
            self._given_up.append((hands.tier, hands.component, prints))
            self.pending[self] = None

    def added(self, node: Node) -> None:
        self._added.append(node)
        self.pending[self] = None

    def acknowledged(self, copy: Copy) -> None:
        if copy.state is CopyState.DONE:
            for part in copy.parts:
                self._published(part.node, copy.target, part.component)

    def committed(self, table: PageTable, result: Commit) -> None:
        if not table.shared:
            return
        node = self.shadows.holdings.node_of(table.full[table.shared - 1])
        old = table.lock.anchor.end if table.lock is not None else 0
        while node is not None and node.parent is not None and node.end > old:
            for component in self.components:
                self._published(node, Tier.DEVICE, component)
            node = node.parent

    def _published(self, node: Node, tier: Tier, component: Component) -> None:
        if node.ready(tier, component):
            seen, prints = self._seen[tier, component], self.named(node, component)
            if prints[0] not in seen or prints[-1] not in seen:
                where = f"{tier.name}_{component.name}".lower()
                self.report("E1", f"unpublished.{where}", f"{node} published", "not published")

    def review(self) -> None:
        """New nodes are published; what was given up is not any more."""
        added, self._added = self._added, []
        for node in added:
            if node.parent is not None:
                for component in self.components:
                    self._published(node, Tier.DEVICE, component)
        self._check_given_up()

    def _check_given_up(self) -> None:
        given_up, self._given_up = self._given_up, []
        for tier, component, prints in given_up:
            seen = self._seen[tier, component]
            if prints and (prints[0] in seen or prints[-1] in seen):
                where = f"{tier.name}_{component.name}".lower()
                self.report("E1", f"unremoved.{where}", "pages given up taken back", "published")

    # -- as a whole ------------------------------------------------------------------------------

    def audited(self) -> None:
        tree = self.cache.tree
        nodes = list(tree.nodes())
        for (tier, component), seen in self._seen.items():
            there: set[int] = set()
            for node in nodes:
                if node.ready(tier, component):
                    there.update(self.named(node, component))
            if there != seen:
                where = f"{tier.name}_{component.name}".lower()
                missing, surplus = len(there - seen), len(seen - there)
                expected = f"{len(there)} pages published"
                self.report(
                    "E1", f"tree.{where}", expected, f"{missing} missing, {surplus} too many"
                )

    def flushed(self) -> None:
        for (tier, component), seen in self._seen.items():
            if seen:
                where = f"{tier.name}_{component.name}".lower()
                self.report("E1", f"flush.{where}", "every page taken back", f"{len(seen)} left")

    def at_rest(self) -> None:
        self.review()
        self.audited()
