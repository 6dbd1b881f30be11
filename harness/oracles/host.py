"""P2, S6 on the host: what it gives up was due, was asked for, and is no more than was short."""

from dataclasses import dataclass

from cache.config import Component, Tier
from cache.contract import Demand
from cache.locks import Lock
from cache.pools import Owner, SlotPool
from cache.storage_moves import Prefetch
from cache.transfers import Copy
from cache.tree import Node
from harness.oracles import naive
from harness.oracles.base import Oracle, place_name
from harness.oracles.shades import Rank

HOST, DEVICE = Tier.HOST, Tier.DEVICE
FULL = Component.FULL


@dataclass(slots=True, eq=False)
class Victim:
    """A node that gave up host slots in the operation under way."""

    node: Node
    parent: Node | None
    ranks: dict[Component, Rank]  # as it went
    others: dict[Component, list[Node]]  # who might have gone instead
    tokens: int
    component: Component  # for whose sake it went: FULL, last of all, takes the others along
    asked: bool = False  # host slots of its kind were allocated afterwards
    served: bool = False  # a copy that they were for was issued


class Host(Oracle):
    """Host slots are given up only when host slots are allocated for a copy in the same operation,
    the first in the host's order first (S6), and the last victim was needed (P2). Whatever is on
    the host only goes without being asked for when the node above leaves the tree with its last
    copy. Silent at a flush, and about order where scanning costs too much."""

    name = "host"

    def applies(self) -> bool:
        return self.cache.config.hierarchical

    def begin(self) -> None:
        self._pools = {self.cache.pools[HOST, c]: c for c in self.components}
        self._victims: list[Victim] = []
        self._dying: set[Node] = set()  # lost their last FULL together with the device's
        self._after_copy = False  # what an acknowledgement lets go of is no part of what follows

    def acknowledged(self, copy: Copy) -> None:
        self._after_copy = True

    def locked(self, lock: Lock) -> None:
        self._next_operation()

    def making_room(self, demand: Demand) -> None:
        self._next_operation()

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        if tier is DEVICE:
            if component is FULL and node.slots[HOST][FULL] is None:
                self._dying.add(node)
                self.pending[self] = None
            return
        victims = self._victims
        # A state may go for one copy, and the pages of its node for the next one.
        last = victims[-1] if victims and not victims[-1].served else None
        if last is None or last.node is not node or last.component <= component:
            victims.append(self._victim(node, component))
            self.pending[self] = None
        victims[-1].component = component

    def allocated(self, pool: SlotPool, slots: list[int], owner: Owner) -> None:
        self._next_operation()
        component = self._pools.get(pool)
        for victim in self._victims if component is not None else ():
            victim.asked |= victim.component is component

    def issued(self, copy: Copy) -> None:
        if copy.target is HOST:
            self._served()

    def prefetch_reserving(self, prefetch: Prefetch) -> None:
        self._next_operation()

    def prefetch_reserved(self, prefetch: Prefetch) -> None:
        self._served()

    def _served(self) -> None:
        """All that was wanted is allocated: the last victim of each kind must have been needed."""
        chosen = self._chosen()
        for component in self.components:
            last = next((v for v in reversed(chosen) if v.component is component), None)
            if last is None or last.served or not last.asked:
                continue
            free = self.cache.pools[HOST, component].free_slots
            if free >= self.slots(component, last.tokens):
                place = place_name(HOST, component)
                self.report("P2", f"evicts.excess.{place}", f"{last.node} kept", f"{free} free")
        for victim in self._victims:
            victim.served = True

    def flushed(self) -> None:
        self._victims, self._dying = [], set()

    def review(self) -> None:
        chosen = self._chosen()
        self._victims, self._dying = [], set()
        for victim in reversed(chosen):
            place = place_name(HOST, victim.component)
            if not victim.asked:
                expected = f"{victim.node} kept: nothing came to the host"
                self.report("P2", f"evicts.unasked.{place}", expected, "dropped")
            if self._passed(victim):
                self.report("S6", f"order.{place}", "the first in order goes first", victim.node)

    def _chosen(self) -> list[Victim]:
        """Those that did not merely hang below a node that left the tree."""
        dying, chosen = set(self._dying), []
        for victim in reversed(self._victims):  # whoever dies takes along what hangs below
            if victim.parent in dying:
                dying.add(victim.node)
            else:
                chosen.append(victim)
        chosen.reverse()
        return chosen

    def _next_operation(self) -> None:
        if self._after_copy:
            self._after_copy = False
            self.review()

    def _victim(self, node: Node, gone: Component) -> Victim:
        shades, others = self.shadows.shades, dict[Component, list[Node]]()
        for component in self.components:
            nodes = shades.residents[HOST][component]
            free = naive.evictable(nodes, HOST, component) if self.afford(len(nodes)) else ()
            others[component] = [n for n in free if n is not node and n is not node.parent]
        ranks = {component: shades.rank(node, component, HOST) for component in self.components}
        return Victim(node, node.parent, ranks, others, node.tokens, gone)

    def _passed(self, victim: Victim) -> bool:
        """Whether another one was due before it. A use that made room for its own backup is only
        told afterwards, so the others' ranks are those after the operation."""
        shades, component = self.shadows.shades, victim.component
        rank = victim.ranks[component]
        if victim.node.attached:
            rank = shades.rank(victim.node, component, HOST)
        return any(
            other.attached and shades.rank(other, component, HOST) < rank
            for other in victim.others[component]
        )
