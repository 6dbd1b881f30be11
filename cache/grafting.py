"""Putting what was prefetched into the tree, on the host.

    page      start        anchor       added meanwhile          window        grafted_end
    tree      | lost window: | on the host: given back          | new node    | new node    |
                takes slots    else: takes the slots              FULL          FULL + SWA

Pages are told by their place in the key, so nodes may have been split meanwhile. A recurrent state
comes last, or nothing is put into the tree: without the state at its end a run would serve nobody.
Invariant: a page goes below a page that is on the host (or, where the policy keeps no closure, on
the device), a window or a state beside its FULL, and nothing into or below what a copy is filling:
the graft ends above that.
"""

from collections.abc import Callable

from cache.config import DEVICE, FULL, HOST, MAMBA, Component
from cache.observer import Observer
from cache.residency import Residency
from cache.storage_moves import Prefetch
from cache.strands import Strand
from cache.tree import Node, RadixTree


class Grafting:
    """`tick()` gives the logical time of a use. `closed` says whether the host may not have a page
    without the page before it."""

    def __init__(
        self,
        residency: Residency,
        tree: RadixTree,
        tick: Callable[[], int],
        observer: Observer,
        strands: tuple[Strand, ...],
        *,
        closed: bool,
    ) -> None:
        self._residency = residency
        self._tree = tree
        self._tick = tick
        self._observer = observer
        self._closed = closed
        self._bits = [0] * len(Component)
        for strand in strands:
            self._bits[strand.component] |= 1 << strand.number
        self._page_size = tree.page_size

    def graft(self, prefetch: Prefetch) -> None:
        """What has landed goes into the tree, as far as the tree can take it; the rest stays the
        prefetch's. A use of what the tree has taken."""
        stop = self._stop(prefetch)
        node, grown = self._above(prefetch), list[Node]()
        if stop > node.end and self._can_hold(node):
            now = self._tick()
            for below in self._tree.walk(prefetch.key, stop, node):
                if self._is_filling(below):
                    stop = below.start
                    break
                for piece in self._cut(prefetch, below):
                    self._fill(prefetch, piece, now)
                    node = piece
                if not self._can_hold(node):
                    stop = node.end
            while node.end < stop:
                node = self._grow(prefetch, node, stop, now)
                grown.append(node)
            prefetch.grafted_end = node.end
            self._observer.grafted(prefetch, grown)

    def _stop(self, prefetch: Prefetch) -> int:
        """Tokens up to which all that is wanted has landed."""
        wanted, granted = prefetch.wanted, prefetch.granted
        if not granted:
            return 0
        if granted == len(wanted):
            return prefetch.end
        if wanted[-1].component is MAMBA and prefetch.landed(MAMBA) <= wanted[-1].page:
            return 0
        return min(map(prefetch.landed, self._residency.components)) * self._page_size

    def _above(self, prefetch: Prefetch) -> Node:
        """The deepest node down to the anchor that lacks nothing."""
        first = prefetch.wanted[0].page * self._page_size if prefetch.wanted else 0
        path = prefetch.anchor.ancestors()
        return next((node for node in path if node.end <= first), self._tree.root)

    def _is_filling(self, node: Node) -> bool:
        """Nothing goes into or below what a copy to the host may yet fail to bring."""
        return any(copy is not None for copy in node.inbound[HOST])

    def _can_hold(self, node: Node) -> bool:
        """Whether something may hang below `node` on the host."""
        if node.parent is None or node.ready(HOST, FULL):
            return True
        return not self._closed and node.slots[DEVICE][FULL] is not None

    def _cut(self, prefetch: Prefetch, node: Node) -> list[Node]:
        """`node`, cut where a component begins that it could take."""
        for component, first in prefetch.first.items():
            cut = first - node.start // self._page_size
            takes = node.slots[HOST][component] is None and first in prefetch.held[component]
            if takes and 0 < cut < node.tokens // self._page_size:
                return [self._tree.split(node, cut), node]
        return [node]

    def _fill(self, prefetch: Prefetch, node: Node, now: int) -> None:
        """An existing node takes what it lacks on the host, FULL before anything else."""
        for component in self._residency.components:
            if node.slots[HOST][component] is None and (
                component is FULL or node.slots[HOST][FULL] is not None
            ):
                self._give(prefetch, node, component)
                if node.slots[HOST][component] is not None:
                    self._residency.renew(node, component, now)
                    prefetch.revived.append((node, component))

    def _grow(self, prefetch: Prefetch, parent: Node, stop: int, now: int) -> Node:
        """A new node below `parent`: up to where a component begins, or to `stop`."""
        begins = [first * self._page_size for first in prefetch.first.values()]
        cut = min([stop, *(at for at in begins if parent.end < at < stop)])
        node = self._tree.add(parent, prefetch.key, cut)
        node.used[:] = [now] * len(node.used)
        self._observer.added(node)
        for component in self._residency.components:
            self._give(prefetch, node, component)
        return node

    def _give(self, prefetch: Prefetch, node: Node, component: Component) -> None:
        first, stop = node.start // self._page_size, node.end // self._page_size
        slots = prefetch.take(component, stop - 1 if component is MAMBA else first, stop)
        if slots:
            place = (HOST, component)
            self._residency.reserve(node, place, slots, prefetch)
            self._residency.land(node, place)
            node.persisted |= self._bits[component]
