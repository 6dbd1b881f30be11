"""What a prefix lacks that storage may have, and how far the two serve it together.

    page        start              anchor             limit
    FULL   =====|==================|                  |
    SWA    =====|.......=====......|                  |     = on some tier, . lost
    MAMBA      =|     .    =    .  |                  |     beyond the anchor there is nothing

Invariant: nothing is asked for that the tree has on some tier, or that no node could take: a window
or a state goes to the host only where its FULL is.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cache.components import Rules
from cache.config import DEVICE, FULL, HOST, MAMBA, Component
from cache.residency import Residency
from cache.storage_moves import Wanted
from cache.strands import Strand
from cache.tree import Node

Have = Callable[[Component, int], bool]  # whether storage has all of a component for a page


class Stretch(NamedTuple):
    """Tokens [start, end) of a prefix, and the components that are to be had for all of them; a
    state for the end."""

    start: int
    end: int
    there: set[Component]


class Lacking:
    """`closed` says whether the host may not have a page without the page before it."""

    def __init__(self, residency: Residency, strands: tuple[Strand, ...], *, closed: bool) -> None:
        self._components = residency.components
        self._small = residency.small
        self._rules: Rules = residency.rules
        self._root = residency.tree.root
        self._strands = strands
        self._closed = closed
        self._page_size = residency.tree.page_size

    def anchor(self, path: list[Node]) -> Node:
        """The deepest node of a path (top down) below which the host may take something."""
        return next((node for node in reversed(path) if self._can_hold(node)), self._root)

    def servable(self, deepest: Node) -> int:
        """How far (tokens) the path down to a node serves every component from device and host."""
        return self.reachable(deepest, deepest.end, deepest.end, _nothing)

    def questions(self, anchor: Node, start: int, limit: int) -> list[Wanted]:
        """What may carry a prefix from `start` tokens, up to which the tree serves it, to `limit`
        at most; strand by strand."""
        return self._objects(anchor, min(limit, start + self._page_size), limit)

    def wanted(self, anchor: Node, end: int) -> list[Wanted]:
        """What a prefix of `end` tokens needs and the tree has not; heads before tails."""
        return sorted(self._objects(anchor, end, end), key=lambda wanted: wanted.page)

    def reachable(self, anchor: Node, start: int, limit: int, have: Have) -> int:
        """How far (tokens) up to `limit` tree and storage serve every component together; up to
        `start` the tree alone."""
        walks = [(component, rule.walk()) for component, rule in self._rules.items()]
        end = 0
        for stretch in self._stretches(anchor, start, limit, have):
            valid = True
            for component, walk in walks:
                valid &= walk.step(component in stretch.there, stretch.start, stretch.end)
            if valid:
                end = stretch.end
        return end

    # -- helpers -----------------------------------------------------------------------------

    def _stretches(self, anchor: Node, start: int, limit: int, have: Have) -> Iterator[Stretch]:
        """Node by node, and page by page where storage may help."""
        size = self._page_size
        for node in reversed(list(anchor.ancestors())):
            here = {c for c in self._components if _there(node, c)}
            whole = len(here) == len(self._components)
            if whole or node.end <= start or not node.ready(HOST, FULL):
                yield Stretch(node.start, node.end, here)
                continue
            for at in range(node.start, node.end, size):
                own = here if at + size == node.end else here - {MAMBA}
                fetched = {c for c in self._small if have(c, at // size)}
                yield Stretch(at, at + size, own | fetched)
        for at in range(anchor.end, limit, size):
            fetched = {c for c in self._components if have(c, at // size)}
            yield Stretch(at, at + size, fetched)

    def _pages(self, anchor: Node, component: Component, first: int, stop: int) -> list[int]:
        """Those from `first` up to `stop` for which the tree has a component on no tier and could
        take it."""
        size = self._page_size
        found = list(range(max(first, anchor.end // size), stop))
        for node in anchor.ancestors():
            if component is FULL or node.end <= first * size:
                break
            here = _there(node, component)
            if (here and component is not MAMBA) or not node.ready(HOST, FULL):
                continue
            last = node.end // size - here  # a state is that of the last page
            found = [*range(max(first, node.start // size), min(last, stop)), *found]
        return found

    def _objects(self, anchor: Node, end: int, limit: int) -> list[Wanted]:
        """What the tree lacks of all that a prefix of `end` tokens needs, up to `limit`."""
        size = self._page_size
        pages = {
            component: self._pages(anchor, component, rule.needed_from(end) // size, limit // size)
            for component, rule in self._rules.items()
        }
        return [
            Wanted(strand, page) for strand in self._strands for page in pages[strand.component]
        ]

    def _can_hold(self, node: Node) -> bool:
        return node.ready(HOST, FULL) or (not self._closed and node.ready(DEVICE, FULL))


def _there(node: Node, component: Component) -> bool:
    return node.ready(DEVICE, component) or node.ready(HOST, component)


def _nothing(component: Component, page: int) -> bool:
    return False
