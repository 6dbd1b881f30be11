"""The radix tree: structure only, no policy.

Invariant: a node's children start where it ends, and no two of them share their first page.
"""

from collections.abc import Callable, Iterator

from cache.config import MAMBA, Component, Tier
from cache.keys import TOKEN_BYTES, Key, chain, common_pages, namespace_seed
from cache.transfers import Copy

Slots = list[int] | None


class Node:
    """An edge of the tree: the pages [start, end) of every key that goes through it.

    slots[tier][component]   one slot for each page (MAMBA: one for the end), None where absent
    inbound[tier][component] the copy that is filling those slots, None once they are ready
    locks[tier][component]   how many receipts cover this node
    kids[tier]               children with FULL present on that tier
    """

    __slots__ = (
        "_prints",
        "children",
        "edge",
        "end",
        "hits",
        "inbound",
        "kids",
        "leaving",
        "locks",
        "namespace",
        "number",
        "parent",
        "persisted",
        "persisting",
        "priority",
        "slots",
        "start",
        "used",
    )

    def __init__(self, number: int, edge: bytes, start: int, end: int, components: int) -> None:
        self.number = number
        self.parent: Node | None = None
        self.children: dict[bytes, Node] = {}
        self.edge = edge
        self.start = start
        self.end = end
        self.namespace = ""
        self.slots: tuple[list[Slots], list[Slots]] = ([None] * components, [None] * components)
        self.inbound: tuple[list[Copy | None], list[Copy | None]] = (
            [None] * components,
            [None] * components,
        )
        self.locks = ([0] * components, [0] * components)
        self.kids = [0, 0]
        self.used = [0] * components
        self.hits = 0
        self.priority = 0
        # What goes from the device when its backup has landed; FULL takes everything along.
        self.leaving: tuple[Component, ...] = ()
        self.persisted = 0  # bit per component: storage is believed to have all of its pages
        self.persisting = 0  # bit per component: they are on their way there
        self._prints: list[int] | None = None

    @property
    def attached(self) -> bool:
        """In the tree. The root is its own namespace's anchor and always attached."""
        return self.parent is not None or self.start == self.end

    @property
    def tokens(self) -> int:
        return self.end - self.start

    def ready(self, tier: Tier, component: Component) -> bool:
        return self.slots[tier][component] is not None and self.inbound[tier][component] is None

    def ancestors(self) -> "Iterator[Node]":
        """This node and those above it, the root left out."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent

    def __repr__(self) -> str:
        return f"node {self.number} [{self.start}:{self.end})"


class RadixTree:
    """Nodes under one root; walks, splits, adds and removes them.

    `on_split` is called with (upper, lower, pages of the upper half) after every split, so that
    whoever refers to a node's slots can follow."""

    def __init__(self, page_size: int, components: int) -> None:
        self.page_size = page_size
        self.page_bytes = page_size * TOKEN_BYTES
        self._components = components
        self._numbers = 0
        self.root = Node(0, b"", 0, 0, components)
        self.on_split: Callable[[Node, Node, int], None] | None = None

    def walk(self, key: Key, limit: int, start: Node | None = None) -> list[Node]:
        """The nodes that spell key[:limit] (tokens, whole pages) below `start`, top down.

        Splits the last one where the key leaves its edge, so the path ends on a page of the key."""
        node = self.root if start is None else start
        path: list[Node] = []
        data, page_bytes = key.data, self.page_bytes
        offset, stop = node.end * TOKEN_BYTES, limit * TOKEN_BYTES
        assert stop % page_bytes == 0
        child = node.children.get(self._first_page(node, key, offset))
        while child is not None and offset < stop:
            edge = child.edge
            if offset + len(edge) <= stop and data.startswith(edge, offset):
                offset += len(edge)
                path.append(child)
                child = child.children.get(data[offset : offset + page_bytes])
                continue
            pages = common_pages(edge, data, offset, stop, page_bytes)
            path.append(self.split(child, pages))
            break
        return path

    def add(self, parent: Node, key: Key, stop: int) -> Node:
        """A new leaf below `parent` for key[parent.end:stop] (tokens, whole pages)."""
        start = parent.end * TOKEN_BYTES
        edge = key.data[start : stop * TOKEN_BYTES]
        assert edge
        assert len(edge) % self.page_bytes == 0
        first = self._first_page(parent, key, start)
        assert first not in parent.children
        self._numbers += 1
        node = Node(self._numbers, edge, parent.end, stop, self._components)
        node.parent = parent
        node.namespace = key.namespace
        parent.children[first] = node
        return node

    def split(self, lower: Node, pages: int) -> Node:
        """Cut `lower` after its first `pages` pages; return the new upper half.

        `lower` keeps its identity and its end, so receipts anchored there stay true, and its state,
        which is that of its end; in all else both halves have the same residency, locks, recency
        and copies in flight."""
        page_bytes, parent = self.page_bytes, lower.parent
        assert parent is not None
        assert 0 < pages < len(lower.edge) // page_bytes
        self._numbers += 1
        middle = lower.start + pages * self.page_size
        cut = pages * page_bytes
        upper = Node(self._numbers, lower.edge[:cut], lower.start, middle, self._components)
        upper.namespace = lower.namespace
        upper.parent = parent
        parent.children[self._key_of(lower)] = upper
        lower.edge, lower.start, lower.parent = lower.edge[cut:], middle, upper
        upper.children[lower.edge[:page_bytes]] = lower
        for tier in (0, 1):
            for component in range(self._components):
                self._split_slots(upper, lower, tier, component, pages)
            upper.locks[tier][:] = lower.locks[tier]
            upper.kids[tier] = int(lower.slots[tier][0] is not None)
        upper.used[:] = lower.used
        upper.hits, upper.priority = lower.hits, lower.priority
        upper.persisted, upper.persisting = lower.persisted, lower.persisting
        if any(upper.inbound[Tier.HOST]):  # else nothing tells when it is to go
            upper.leaving = tuple(c for c in lower.leaving if c is not MAMBA)
        if lower._prints is not None:
            upper._prints, lower._prints = lower._prints[:pages], lower._prints[pages:]
        if self.on_split is not None:
            self.on_split(upper, lower, pages)
        return upper

    def remove(self, node: Node) -> None:
        """Take a childless node out of the tree."""
        assert not node.children
        assert node.parent is not None
        del node.parent.children[self._key_of(node)]
        node.parent = None

    def prints(self, node: Node) -> list[int]:
        """The fingerprints of a node's pages, computed from its ancestors' when first asked for."""
        missing = []
        above: Node | None = node
        while above is not None and above._prints is None and above.parent is not None:
            missing.append(above)
            above = above.parent
        for below in reversed(missing):
            parent = below.parent
            assert parent is not None
            last = parent._prints[-1] if parent._prints else namespace_seed(below.namespace)
            below._prints = chain(last, below.edge, self.page_bytes)
        return node._prints or []

    def nodes(self) -> Iterator[Node]:
        """Every node but the root, parents before children, in order of insertion."""
        stack = list(reversed(self.root.children.values()))
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children.values()))

    def _first_page(self, node: Node, key: Key, offset: int) -> bytes:
        page = key.data[offset : offset + self.page_bytes]
        return page if node.parent is not None else page + key.namespace.encode()

    def _key_of(self, node: Node) -> bytes:
        """Under which key `node` stands in its parent's children."""
        page = node.edge[: self.page_bytes]
        parent = node.parent
        assert parent is not None
        return page if parent.parent is not None else page + node.namespace.encode()

    @staticmethod
    def _split_slots(upper: Node, lower: Node, tier: int, component: int, pages: int) -> None:
        slots = lower.slots[tier][component]
        if component == MAMBA or slots is None:
            return
        upper.slots[tier][component] = slots[:pages]
        lower.slots[tier][component] = slots[pages:]
        upper.inbound[tier][component] = lower.inbound[tier][component]
