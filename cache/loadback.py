"""What a path can serve, and load-back: host to device.

Invariant: a load-back is anchored at the deepest node valid for *all* components, and brings what
that node's prefix lacks, all components or none.
"""

from collections.abc import Callable

from cache.config import DEVICE, FULL, HOST, Component, Tier
from cache.contract import Demand, LoadBack, LoadOutcome, Match, Room
from cache.keys import Key
from cache.locks import NOT_HELD, LockTable
from cache.pools import Owner
from cache.residency import Residency
from cache.transfers import Copy, Part, Transfers
from cache.tree import Node

Piece = tuple[Node, Component]


class LoadBacks:
    def __init__(
        self,
        residency: Residency,
        locks: LockTable,
        transfers: Transfers,
        make_room: Callable[[Demand], Room],
        threshold: int,
    ) -> None:
        self._residency = residency
        self._locks = locks
        self._transfers = transfers
        self._make_room = make_room
        self._threshold = threshold
        self._rules = residency.rules
        self._root = residency.tree.root
        self._nothing = residency.nothing

    def assess(self, key: Key, path: list[Node]) -> Match:
        """The deepest servable and the deepest loadable node of a path (top down)."""
        device = self.deepest_on_device(path)
        anchor = device
        if self._residency.hierarchical:
            anchor = self._deepest_loadable(path)
        pages = self._slots(self._lacking(anchor)) if anchor is not device else self._nothing
        return Match(key, device, anchor, pages, path[-1].end if path else 0)

    def deepest_on_device(self, path: list[Node]) -> Node:
        """Valid for every component with what is on the device or on a sound way there."""
        walks = [(component, rule.walk()) for component, rule in self._rules.items()]
        deepest = self._root
        for node in path:
            slots, inbound = node.slots[DEVICE], node.inbound[DEVICE]
            valid = True
            for component, walk in walks:
                copy = inbound[component]
                there = slots[component] is not None and (copy is None or not copy.doomed)
                valid &= walk.step(there, node.start, node.end)
            if valid:
                deepest = node
            if slots[FULL] is None:
                break
        return deepest

    def load(self, match: Match) -> LoadBack:
        """Reserve, lock, queue. The admission lock over the anchor protects both ends."""
        nothing = self._nothing
        path = list(reversed(list(match.anchor.ancestors())))
        if self._deepest_loadable(path) is not match.anchor:
            return LoadBack(LoadOutcome.STALE, nothing, None, _no_room_needed(nothing))
        pieces = self._lacking(match.anchor)
        if not pieces:
            joined = bool(self.inbound(match.anchor))
            outcome = LoadOutcome.JOINED if joined else LoadOutcome.NOTHING
            return LoadBack(outcome, nothing, None, _no_room_needed(nothing))
        pages = self._slots(pieces)
        gained = match.anchor.end - self.deepest_on_device(path).end
        if gained < self._threshold:
            return LoadBack(LoadOutcome.TOO_SHORT, nothing, None, _no_room_needed(nothing))
        room = self._hopeless(pages) or self._make_room(Demand(*pages))
        if not room.enough:
            return LoadBack(LoadOutcome.NO_ROOM, nothing, None, room)
        copy = self._issue(match.anchor, pieces)
        return LoadBack(LoadOutcome.ISSUED, pages, copy, room)

    def _slots(self, pieces: list[Piece]) -> tuple[int, ...]:
        """Per component, the device slots that `pieces` take."""
        slots = list(self._nothing)
        for node, component in pieces:
            slots[component] += self._residency.slots(component, node.tokens)
        return tuple(slots)

    def _hopeless(self, pages: tuple[int, ...]) -> Room | None:
        """The answer to a demand that cannot be met: nobody's pages are given up for it."""
        missing = list(self._nothing)
        for component in self._residency.components:
            there = self._residency.obtainable(DEVICE, component)
            missing[component] = max(0, pages[component] - there)
        short = tuple(missing)
        return Room(short, self._residency.leaving_pages()) if any(short) else None

    def reach(self, anchor: Node) -> list[int]:
        """Per component, the position from which the anchor's prefix needs it."""
        reach = [NOT_HELD] * len(self._nothing)
        for component, rule in self._rules.items():
            reach[component] = rule.needed_from(anchor.end)
        return reach

    def inbound(self, anchor: Node) -> list[Copy]:
        """The copies that must land before the anchor's prefix can be read, oldest first."""
        waits: dict[int, Copy] = {}
        starts = [(c, rule.needed_from(anchor.end)) for c, rule in self._rules.items()]
        for node in anchor.ancestors():
            for component, start in starts:
                copy = node.inbound[DEVICE][component]
                if copy is not None and node.end > start:
                    waits[copy.number] = copy
        return [waits[number] for number in sorted(waits)]

    def _issue(self, anchor: Node, pieces: list[Piece]) -> Copy:
        pools = self._residency.pools
        lock = self._locks.acquire(anchor, self.reach(anchor), tuple(Tier), "load-back")
        parts = []
        for node, component in pieces:
            source = node.slots[HOST][component]
            assert source is not None
            target = pools[DEVICE, component].allocate(len(source), Owner.COPY)
            parts.append(Part(node, component, source, target))
        copy = self._transfers.issue(DEVICE, parts, lock)
        for part in parts:
            self._residency.reserve(part.node, (DEVICE, part.component), part.target, copy)
        return copy

    def _deepest_loadable(self, path: list[Node]) -> Node:
        """Valid for every component with the device's and the host's copies together."""
        walks = [(component, rule.walk()) for component, rule in self._rules.items()]
        deepest = self._root
        for node in path:
            valid = True
            for component, walk in walks:
                valid &= walk.step(_obtainable(node, component), node.start, node.end)
            if valid:
                deepest = node
        return deepest

    def _lacking(self, anchor: Node) -> list[Piece]:
        """What the anchor's prefix needs and the device has no slots for, top down, FULL first."""
        pieces: list[Piece] = []
        starts = self.reach(anchor)
        for node in anchor.ancestors():
            for component in reversed(self._residency.components):
                if node.end > starts[component] and node.slots[DEVICE][component] is None:
                    pieces.append((node, component))
        pieces.reverse()
        return pieces


def _obtainable(node: Node, component: int) -> bool:
    """On the device (or on a sound way there), or ready on the host. Nothing is brought to a node
    while a doomed copy still fills a part of it."""
    inbound = node.inbound[DEVICE]
    if node.slots[DEVICE][component] is not None:
        copy = inbound[component]
        return copy is None or not copy.doomed
    doomed = any(copy is not None and copy.doomed for copy in inbound)
    return node.ready(HOST, Component(component)) and not doomed


def _no_room_needed(nothing: tuple[int, ...]) -> Room:
    return Room(nothing, nothing)
