"""Victims: who goes first, and the making of room on both tiers.

Invariant: only unlocked, ready values are given up, the device's FULL from leaves only, and a call
frees something whenever something is free to go.
"""

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from cache.config import DEVICE, FULL, HOST, Component, EvictionOrder, Tier, WritePolicy
from cache.contract import Demand, Room
from cache.tree import Node

if TYPE_CHECKING:
    from cache.backup import Backups
    from cache.residency import Residency

Rank = tuple[int, int, int]


SPARE = 8  # stale entries beside the live ones' number; few, so that small worlds come here too


class Victims:
    """The nodes whose component may be evicted from a tier now, in eviction order.

    A heap with lazy deletion: an entry counts while it is the node's latest."""

    def __init__(self, order: EvictionOrder, component: Component) -> None:
        self._order = order
        self._component = component
        self._ranks: dict[int, Rank] = {}
        self._heap: list[tuple[Rank, int, Node]] = []

    def offer(self, node: Node) -> None:
        """`node` may go; its place in the order is that of its recency, hits or priority now."""
        rank = self.rank(node)
        if self._ranks.get(node.number) == rank:
            return
        self._ranks[node.number] = rank
        heappush(self._heap, (rank, node.number, node))
        if len(self._heap) > SPARE + 2 * len(self._ranks):
            self._heap = [e for e in self._heap if self._ranks.get(e[1]) == e[0]]
            heapify(self._heap)

    def refresh(self, node: Node) -> None:
        """A use changed `node`'s place in the order, and not whether it may go."""
        if node.number in self._ranks:
            self.offer(node)

    def withdraw(self, node: Node) -> None:
        self._ranks.pop(node.number, None)

    def first(self) -> Node | None:
        heap = self._heap
        while heap:
            rank, number, node = heap[0]
            if self._ranks.get(number) == rank:
                return node
            heappop(heap)
        return None

    def __contains__(self, node: Node) -> bool:
        return node.number in self._ranks

    def numbers(self) -> list[int]:
        """The candidates' node numbers, ascending, for audits."""
        return sorted(self._ranks)

    def listed_rank(self, node: Node) -> Rank | None:
        return self._ranks.get(node.number)

    def rank(self, node: Node) -> Rank:
        """Smaller goes first. Nodes used at one instant lie on one path: FULL goes from its deep
        end (only leaves may go), a window from its shallow end (where it matters least). Of states
        a use touches one only."""
        used = node.used[self._component]
        depth = -node.start if self._component is FULL else node.start
        match self._order:
            case EvictionOrder.LRU:
                return (used, 0, depth)
            case EvictionOrder.LFU:
                return (node.hits, used, depth)
            case EvictionOrder.PRIORITY:
                return (node.priority, used, depth)


class HostEvictor:
    """Makes room on the host, leaf by leaf."""

    def __init__(self, residency: "Residency") -> None:
        self._residency = residency

    def make_room(self, pages: list[int]) -> bool:
        """Whether `pages` (slots per component) are free on the host now. Nothing is given up for
        a demand that cannot be met."""
        components, obtainable = self._residency.components, self._residency.obtainable
        if any(obtainable(HOST, c) < pages[c] for c in components):
            return False
        if any(self._residency.refused(HOST, pages)):
            return False
        for component in components:
            self._make_room(component, pages[component])
        return True

    def drop_below(self, node: Node) -> None:
        """Give up the host-only nodes below a node that is about to go itself."""
        for child in list(node.children.values()):
            self.drop_below(child)
            assert child.slots[DEVICE][FULL] is None, child
            self._drop(child)

    def _make_room(self, component: Component, wanted: int) -> None:
        pool = self._residency.pools[HOST, component]
        victims = self._residency.victims[HOST, component]
        while pool.free_slots < wanted:
            node = victims.first()
            assert node is not None, "what was to be had is to be had"
            if component is FULL:
                self._drop(node)
            else:
                self._residency.drop(node, HOST, component)

    def _drop(self, node: Node) -> None:
        for component in reversed(self._residency.components):
            if node.slots[HOST][component] is not None:
                self._residency.drop(node, HOST, component)


class DeviceEvictor:
    """Makes room on the device: demotes what the host has, backs up what the policy wants kept,
    drops the rest."""

    def __init__(
        self, residency: "Residency", backups: "Backups", hosts: HostEvictor, policy: WritePolicy
    ) -> None:
        self._residency = residency
        self._backups = backups
        self._hosts = hosts
        self._policy = policy
        self._hierarchical = residency.hierarchical
        self.only_copies_dropped = 0

    def make_room(self, demand: Demand) -> Room:
        residency = self._residency
        refused = residency.refused(DEVICE, demand)
        if any(refused):  # nobody's pages are given up for it
            return Room(refused, residency.nothing)
        for component in residency.components:
            self._make_room(component, demand[component])
        short = residency.shortage(demand)
        return Room(short, residency.leaving_pages() if any(short) else residency.nothing)

    def conclude(self, node: Node) -> None:
        """The backup that a leaving node waited for is over: let it go unless it was used again."""
        leaving, node.leaving = node.leaving, ()
        self._residency.left(node)
        for component in leaving:
            if node not in self._residency.victims[DEVICE, component]:
                continue
            if component is FULL:
                self._let_go(node)
            else:
                self._drop_small(node, component)

    def _make_room(self, component: Component, wanted: int) -> None:
        residency = self._residency
        pool = residency.pools[DEVICE, component]
        victims = residency.victims[DEVICE, component]
        while (short := wanted - pool.free_slots) > 0:
            if residency.leaving and short <= residency.leaving_pages()[component]:
                return
            node = victims.first()
            if node is None:
                return
            if component is FULL:
                self._evict_leaf(node, short)
            else:
                self._evict_small(node, component, short)

    def _evict_leaf(self, node: Node, short: int) -> None:
        if self._wants_backup(node) and self._backups.back_up(node) is not None:
            self._residency.leave(node, FULL)
            return
        self._let_go(node, short)

    def _evict_small(self, node: Node, component: Component, short: int) -> None:
        """A window or a state. A leaf without it would serve nobody: such a leaf goes as a whole.
        An inner node keeps its FULL, for those below it."""
        if node.ready(HOST, component):
            self._residency.drop(node, DEVICE, component)
        elif node in self._residency.victims[DEVICE, FULL]:
            self._evict_leaf(node, short)
        elif self._only_copy(node, component) and self._backups.back_up(node) is not None:
            self._residency.leave(node, component)
        else:
            self._drop_small(node, component)

    def _wants_backup(self, node: Node) -> bool:
        if not self._hierarchical:
            return False
        on_host = node.slots[HOST][FULL] is not None
        if not on_host:
            return self._policy is WritePolicy.WRITE_BACK
        return any(self._only_copy(node, c) for c in self._residency.small)

    def _only_copy(self, node: Node, component: Component) -> bool:
        """The last copy of its window or state is about to go while the host keeps the prefix that
        it belongs to."""
        return (
            node.slots[HOST][FULL] is not None
            and node.slots[HOST][component] is None
            and node.slots[DEVICE][component] is not None
        )

    def _let_go(self, node: Node, short: int = 0) -> None:
        """Demote a leaf, or drop it where the host has no copy."""
        residency, parent = self._residency, node.parent
        assert parent is not None
        if node.slots[HOST][FULL] is None:
            self._hosts.drop_below(node)
            if short and len(residency.components) == 1 and not node.children:
                residency.trim(node, short)
        else:
            lost = [c for c in residency.small if self._only_copy(node, c)]
            self.only_copies_dropped += len(lost)
        for component in reversed(residency.components):
            if node.slots[DEVICE][component] is not None:
                residency.drop(node, DEVICE, component)
        self._sweep(parent)

    def _drop_small(self, node: Node, component: Component) -> None:
        self.only_copies_dropped += self._only_copy(node, component)
        self._residency.drop(node, DEVICE, component)

    def _sweep(self, node: Node) -> None:
        """Drop the leaves above that are left without their window or their state anywhere: nothing
        can be served through them."""
        residency = self._residency
        while (parent := node.parent) is not None and not node.children:
            if node not in residency.victims[DEVICE, FULL]:
                return
            if not any(_nowhere(node, component) for component in residency.small):
                return
            if node.slots[HOST][FULL] is not None:
                return
            for component in reversed(residency.components):
                if node.slots[DEVICE][component] is not None:
                    residency.drop(node, DEVICE, component)
            node = parent


def _nowhere(node: Node, component: Component) -> bool:
    return all(node.slots[tier][component] is None for tier in Tier)
