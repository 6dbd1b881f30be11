"""Backups: device to host, with the host's closure kept.

Invariant: source nodes and the host path above them are locked before room is made on the host, so
making room can neither free the source nor the parent that the copy will hang below.
"""

from cache.config import DEVICE, FULL, HOST, Component, Tier, WritePolicy
from cache.eviction import HostEvictor
from cache.locks import NOT_HELD, LockTable
from cache.pools import Owner
from cache.residency import Residency
from cache.transfers import Copy, Part, Transfers
from cache.tree import Node

Piece = tuple[Node, Component]


class Backups:
    def __init__(
        self,
        residency: Residency,
        locks: LockTable,
        transfers: Transfers,
        hosts: HostEvictor,
        policy: WritePolicy,
    ) -> None:
        self._residency = residency
        self._locks = locks
        self._transfers = transfers
        self._hosts = hosts
        self._policy = policy
        self.refused = 0

    @property
    def follow_use(self) -> bool:
        """Whether a use may lead to backups."""
        return self._residency.hierarchical and self._policy is not WritePolicy.WRITE_BACK

    def on_use(self, node: Node) -> None:
        """A node was used: back it up if its policy says that it is due."""
        if not self.follow_use:
            return
        due = 1 if self._policy is WritePolicy.WRITE_THROUGH else 2
        if node.hits >= due:
            self.back_up(node)

    def back_up(self, node: Node) -> Copy | None:
        """Queue a copy of everything that `node` has ready on the device and lacks on the host.

        Under the write-through policies its ancestors that lack a host copy go with it, so the
        host never has a child without its parent. None when nothing is lacking or the host has no
        room; then nothing has changed but the host's older entries."""
        pieces = self._missing(node)
        if not pieces:
            return None
        lock = self._locks.acquire(node, self._reach(pieces), tuple(Tier), "backup")
        pages = list(self._residency.nothing)
        for node_, component in pieces:
            pages[component] += len(node_.slots[DEVICE][component] or ())
        if not self._hosts.make_room(pages):
            self._locks.release(lock)
            self.refused += 1
            return None
        pools = self._residency.pools
        parts = []
        for node_, component in pieces:
            source = node_.slots[DEVICE][component]
            assert source is not None
            target = pools[HOST, component].allocate(len(source), Owner.COPY)
            parts.append(Part(node_, component, source, target))
        copy = self._transfers.issue(HOST, parts, lock)
        for part in parts:
            self._residency.reserve(part.node, (HOST, part.component), part.target, copy)
        return copy

    def _missing(self, node: Node) -> list[Piece]:
        """Top down. Empty if some ancestor that would have to come along cannot."""
        pieces: list[Piece] = []
        for above in node.ancestors():
            if above is not node and above.slots[HOST][FULL] is not None:
                break
            if above is not node and self._policy is WritePolicy.WRITE_BACK:
                break
            lacking = [c for c in self._residency.components if self._lacks(above, c)]
            if above is not node and FULL not in lacking:
                return []
            pieces += [(above, c) for c in reversed(lacking)]
        pieces.reverse()
        return pieces

    def _lacks(self, node: Node, component: Component) -> bool:
        on_host = node.slots[HOST][component] is not None
        return not on_host and node.ready(DEVICE, component)

    def _reach(self, pieces: list[Piece]) -> list[int]:
        reach = [NOT_HELD] * len(self._residency.nothing)
        reach[FULL] = 0
        for node, component in reversed(pieces):
            if component is not FULL:
                reach[component] = node.start
        return reach
