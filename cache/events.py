"""Published KV events: what became servable from which tier, and what is gone.

A router that follows them knows which prefixes a server holds. Pages are named by their prefix
fingerprints, so equal names mean equal prefixes on every server; a recurrent state has the name of
the page that it ends with. Invariant (E1): stored minus
removed is exactly what is ready in the tree, for each tier and component; a page is stored once
before it is removed once.
"""

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from cache.config import MAMBA, Component, Tier
from cache.observer import Observer
from cache.tree import Node, RadixTree


class Happening(StrEnum):
    STORED = "stored"
    REMOVED = "removed"


class KvEvent(NamedTuple):
    """Consecutive pages of one prefix. `parent_print` is the page before the first of `prints`;
    0 when they start the prefix."""

    kind: Happening
    tier: Tier
    component: Component
    prints: tuple[int, ...]
    parent_print: int


class EventLog(Observer):
    """Derives the events from what the cache tells.

    Each goes to `on_event` at once and, if `keep` is above 0, into `events`, which forgets the
    oldest beyond `keep`. A copy still in flight is no event; it is when it has landed."""

    def __init__(self, on_event: Callable[[KvEvent], None] | None = None, *, keep: int = 0) -> None:
        self.events: deque[KvEvent] = deque(maxlen=keep)
        self._on_event = on_event
        self._tree: RadixTree | None = None

    def attach(self, tree: RadixTree) -> None:
        """Before the cache's first operation."""
        self._tree = tree

    def stored(self, node: Node, tier: Tier, component: Component) -> None:
        self._publish(Happening.STORED, node, tier, component)

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        self._publish(Happening.REMOVED, node, tier, component)

    def _publish(self, kind: Happening, node: Node, tier: Tier, component: Component) -> None:
        tree = self._tree
        assert tree is not None, "attach the log to the tree first"
        assert node.parent is not None, "a node that left the tree was dropped before"
        prints = tuple(tree.prints(node))
        above = (0, *tree.prints(node.parent)[-1:])
        if component is MAMBA:
            above, prints = (*above, *prints[:-1]), prints[-1:]
        event = KvEvent(kind, tier, component, prints, above[-1])
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)
