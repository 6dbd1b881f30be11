"""Putting a request's pages into the tree.

    page       shared      filling?          swa_from            written
    request    |  the tree's  |  own, window given back  |  own    |
    tree       |  anchor      |  duplicate | tombstone   |  new    |

A duplicate gives the request's slot back and points the table at the tree's; a tombstone takes the
request's slot; what is new becomes a node. Invariant: nothing is ever swapped for a page that a
copy is still filling; the insert stops above it.
"""

from cache.config import DEVICE, FULL, SWA
from cache.contract import Commit
from cache.keys import Key
from cache.observer import Observer
from cache.pools import Owner
from cache.residency import Residency
from cache.table import PageTable
from cache.tree import Node, RadixTree


class Insertion:
    def __init__(self, residency: Residency, tree: RadixTree, observer: Observer) -> None:
        self._residency = residency
        self._tree = tree
        self._observer = observer
        self._page_size = tree.page_size
        self._windowed = residency.windowed

    def insert(self, table: PageTable, key: Key, anchor: Node) -> tuple[Commit, Node]:
        """Insert the whole pages that the table has written below `anchor`, its lock's.

        Returns the result and the new deepest node. The table's `shared` has moved there."""
        limit = table.written // self._page_size * self._page_size
        assert limit <= key.tokens
        adopted = duplicates = 0
        blocked = False
        node = anchor
        for below in self._tree.walk(key, limit, anchor):
            if self._is_filling(below):
                blocked = True
                break
            for piece in self._cut_at_window(table, below):
                took = self._meet(table, piece)
                adopted += took
                duplicates += piece.tokens // self._page_size - took
                node = piece
        if not blocked:
            while node.end < limit:
                node = self._grow(table, key, node, limit)
                adopted += node.tokens // self._page_size
        table.shared = node.end // self._page_size
        table.swa_from = max(table.swa_from, table.shared)
        return Commit(table.shared, adopted, duplicates, blocked), node

    def _is_filling(self, node: Node) -> bool:
        return any(copy is not None for copy in node.inbound[DEVICE])

    def _cut_at_window(self, table: PageTable, node: Node) -> list[Node]:
        """Cut `node` where the request's window begins, if the window could fill its tombstone."""
        if not self._windowed or node.slots[DEVICE][SWA] is not None:
            return [node]
        cut = table.swa_from - node.start // self._page_size
        if not 0 < cut < node.tokens // self._page_size:
            return [node]
        return [self._tree.split(node, cut), node]

    def _meet(self, table: PageTable, node: Node) -> int:
        """An existing node on the key's path. Returns the FULL pages that it adopted."""
        start, stop = node.start // self._page_size, node.end // self._page_size
        own = table.full[start:stop]
        windowed = self._windowed and start >= table.swa_from
        here = node.slots[DEVICE][FULL]
        if here is None:
            self._adopt(node, own, windowed)
            return stop - start
        if self._windowed:
            if windowed and node.slots[DEVICE][SWA] is None:
                swa = self._residency.map.lookup(own)
                self._residency.adopt(node, SWA, swa, own)
            else:
                freed = self._residency.map.unbind(own)
                self._residency.pools[DEVICE, SWA].release(freed, Owner.REQUEST)
        self._residency.pools[DEVICE, FULL].release(own, Owner.REQUEST)
        table.full[start:stop] = here
        return 0

    def _grow(self, table: PageTable, key: Key, parent: Node, limit: int) -> Node:
        """A new node below `parent`: up to where the window begins, or to the end."""
        start = parent.end // self._page_size
        stop = limit
        if self._windowed and start < table.swa_from:
            stop = min(stop, table.swa_from * self._page_size)
        node = self._tree.add(parent, key, stop)
        self._observer.added(node)
        own = table.full[start : stop // self._page_size]
        self._adopt(node, own, self._windowed and start >= table.swa_from)
        return node

    def _adopt(self, node: Node, own: list[int], windowed: bool) -> None:
        self._residency.adopt(node, FULL, own, own)
        if windowed:
            swa = self._residency.map.lookup(own)
            self._residency.adopt(node, SWA, swa, own)
