"""How nodes were used and who is resident where, counted from outside.

A use is an admission that settled on a node's path, or a commit that created or reached it; hits,
recency and priority are derived from that alone, and so is what a policy should have done.
"""

from collections.abc import Sequence

from cache.config import CacheConfig, Component, EvictionOrder, Tier
from cache.contract import Commit, Match
from cache.locks import Lock
from cache.observer import Observer
from cache.storage_moves import Prefetch
from cache.table import PageTable
from cache.transfers import Copy, CopyState
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.oracles.holdings import Holdings

Rank = tuple[int, ...]


class Shade:
    """One node's past."""

    __slots__ = ("hits", "priority", "used")

    def __init__(self, hits: int = 0, priority: int = 0, used: Sequence[int] = (0, 0, 0)) -> None:
        self.hits = hits
        self.priority = priority
        self.used = list(used)


class Shades(Observer):
    """`counted` are the nodes that the latest use counted a hit on, top down."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._shades: dict[Node, Shade] = {}
        self._shared: dict[PageTable, int] = {}
        self._locks: dict[PageTable, Lock | None] = {}
        self._ending: dict[PageTable, tuple[Node, int]] = {}
        self._clock = 0
        self.counted: list[Node] = []
        self.residents: tuple[list[dict[Node, None]], list[dict[Node, None]]] = (
            [{}, {}, {}],
            [{}, {}, {}],
        )

    def attach(self, cache: UnifiedCache) -> None:
        self._config: CacheConfig = cache.config

    def of(self, node: Node) -> Shade:
        shade = self._shades.get(node)
        if shade is None:
            shade = self._shades[node] = Shade()
        return shade

    def shared_before(self, table: PageTable) -> int:
        """Pages of the tree that the table pointed at before its latest commit."""
        return self._shared.get(table, 0)

    def rank(self, node: Node, component: Component, tier: Tier = Tier.DEVICE) -> Rank:
        """Smaller goes first: the documented order of eviction from `tier`."""
        shade = self.of(node)
        used = shade.used[component]
        depth = -node.start if component is Component.FULL else node.start
        config = self._config
        match config.device_eviction if tier is Tier.DEVICE else config.host_eviction:
            case EvictionOrder.LRU:
                return (used, depth)
            case EvictionOrder.LFU:
                return (shade.hits, used, depth)
            case EvictionOrder.PRIORITY:
                return (shade.priority, used, depth)

    # -- residents: ready, by tier and component ---------------------------------------------

    def stored(self, node: Node, tier: Tier, component: Component) -> None:
        self.residents[tier][component][node] = None

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        self.residents[tier][component].pop(node, None)

    def acknowledged(self, copy: Copy) -> None:
        if copy.state is CopyState.FAILED:
            for part in copy.parts:
                self.residents[copy.target][part.component].pop(part.node, None)

    def split(self, upper: Node, lower: Node) -> None:
        old = self.of(lower)
        self._shades[upper] = Shade(old.hits, old.priority, old.used)
        for components in self.residents:
            for nodes in components[: Component.MAMBA]:  # the state stays with the lower half
                if lower in nodes:
                    nodes[upper] = None

    def removed(self, node: Node) -> None:
        self._shades.pop(node, None)

    def grafted(self, prefetch: Prefetch, nodes: list[Node]) -> None:
        """A use of what the tree has taken."""
        self._clock += 1
        for node in nodes:
            self.of(node).used[:] = [self._clock] * len(self.of(node).used)
        for node, component in prefetch.revived:
            self.of(node).used[component] = self._clock

    # -- uses --------------------------------------------------------------------------------

    def settled(self, match: Match, table: PageTable) -> None:
        self._shared[table] = table.shared
        self._locks[table] = table.lock
        self.counted = []
        if table.lock is not None:
            self._use(table.lock.anchor, 0, table.priority)

    def committed(self, table: PageTable, result: Commit) -> None:
        self.counted = []
        before = self._shared.get(table, 0)
        self._shared[table] = table.shared
        anchor = self._anchor(table)
        ending = table.lock is self._locks.get(table)
        self._locks[table] = table.lock
        if anchor is None:
            return
        if ending:  # `finish` counts the use between this and `closed`
            self._ending[table] = (anchor, before)
        else:
            self._use(anchor, before * self._config.page_size, table.priority)

    def relocked(self, table: PageTable) -> None:
        self._locks[table] = table.lock

    def closed(self, table: PageTable) -> None:
        self.counted = []
        self._shared.pop(table, None)
        self._locks.pop(table, None)
        ending = self._ending.pop(table, None)
        if ending is not None:
            self._use(ending[0], ending[1] * self._config.page_size, table.priority)

    def _anchor(self, table: PageTable) -> Node | None:
        if not table.shared or table.shared > len(table.full):
            return None
        return self._holdings.node_of(table.full[table.shared - 1])

    def _use(self, anchor: Node, above: int, priority: int) -> None:
        self._clock = now = self._clock + 1
        config = self._config
        window = max(0, anchor.end - config.window) // config.page_size * config.page_size
        for node in anchor.ancestors():
            shade = self.of(node)
            if priority > shade.priority:
                shade.priority = priority
            shade.used[Component.FULL] = now
            if node.end > window:
                shade.used[Component.SWA] = now
            if node is anchor:
                shade.used[Component.MAMBA] = now
            if node.end > above:
                shade.hits += 1
                self.counted.append(node)
        self.counted.reverse()
