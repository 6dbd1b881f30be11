"""Locks are receipts over positions.

A receipt covers, for each component, every node between its anchor and a position, whatever is
resident there. Releasing walks from the same anchor to the same position, so it takes back exactly
what was given, even when a load-back has revived a tombstone or a split has cut a node meanwhile.

Invariant (L1): a node's count for a tier and component is the number of live receipts covering it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cache.config import Component, Tier
from cache.contract import BrokenInvariant
from cache.observer import Observer
from cache.tree import Node

NOT_HELD = -1
COMPONENTS = tuple(Component)


@dataclass(eq=False, slots=True)
class Lock:
    """A receipt. Only LockTable makes and changes it.

    `reach[component]` is the position (tokens) down to which nodes above the anchor are covered:
    always the start of a node at the time of the acquisition. NOT_HELD: not this component. Of
    MAMBA it is the anchor alone that counts."""

    number: int
    anchor: Node
    reach: list[int]
    tiers: tuple[Tier, ...]
    holder: str
    live: bool = field(default=True)

    def covers(self, node: Node, component: Component) -> bool:
        """Whether `node`, on the path of the anchor, is covered."""
        reach = self.reach[component]
        return reach != NOT_HELD and reach <= node.start and node.end <= self.anchor.end

    def __repr__(self) -> str:
        return f"lock {self.number} ({self.holder} at {self.anchor})"


OnTurn = Callable[[Node, Tier, Component, int], None]


class LockTable:
    """Gives receipts out, takes them back, and keeps the ledger of live ones.

    `on_turn(node, tier, component, step)` is called when a count leaves 0 (+1) or reaches it (-1).
    """

    def __init__(self, observer: Observer, on_turn: OnTurn) -> None:
        self._observer = observer
        self._on_turn = on_turn
        self._numbers = 0
        self._live: dict[int, Lock] = {}

    def acquire(self, anchor: Node, reach: list[int], tiers: tuple[Tier, ...], holder: str) -> Lock:
        """Count every node from `anchor` up to each component's position.

        A position inside a node is lowered to the node's start: after a split both halves are
        still covered."""
        assert anchor.attached, anchor
        for component, position in zip(COMPONENTS, reach, strict=False):
            if position == NOT_HELD:
                continue
            for node in segment(anchor, position):
                reach[component] = node.start
                for tier in tiers:
                    self._count(node, tier, component, +1)
        self._numbers += 1
        lock = Lock(self._numbers, anchor, reach, tiers, holder)
        self._live[lock.number] = lock
        self._observer.locked(lock)
        return lock

    def release(self, lock: Lock) -> None:
        """Take a receipt back. It must be live and this table's own."""
        self._require_live(lock)
        for component in COMPONENTS[: len(lock.reach)]:
            self._uncount(lock, component)
        del self._live[lock.number]
        lock.live = False
        self._observer.unlocked(lock)

    def narrow(self, lock: Lock, component: Component) -> None:
        """Give one component's part back early; the rest of the receipt stays."""
        self._require_live(lock)
        self._uncount(lock, component)
        lock.reach[component] = NOT_HELD
        self._observer.narrowed(lock, component)

    def live(self) -> Iterator[Lock]:
        """The ledger, oldest first."""
        return iter(self._live.values())

    def __len__(self) -> int:
        return len(self._live)

    def _require_live(self, lock: Lock) -> None:
        if self._live.get(lock.number) is not lock:
            raise BrokenInvariant("L1", "release.receipt", "a live receipt of this cache", lock)

    def _uncount(self, lock: Lock, component: Component) -> None:
        position = lock.reach[component]
        if position == NOT_HELD:
            return
        for node in segment(lock.anchor, position):
            for tier in lock.tiers:
                self._count(node, tier, component, -1)

    def _count(self, node: Node, tier: Tier, component: Component, step: int) -> None:
        counts = node.locks[tier]
        before = counts[component]
        counts[component] = before + step
        if before + step < 0:
            raise BrokenInvariant("L1", "release.count", f"a positive count on {node}", before)
        if before == 0 or before + step == 0:
            self._on_turn(node, tier, component, step)


def segment(anchor: Node, position: int) -> Iterator[Node]:
    """The nodes from `anchor` up that reach above `position` (tokens), bottom up."""
    node = anchor
    while node.parent is not None and node.end > position:
        yield node
        node = node.parent
