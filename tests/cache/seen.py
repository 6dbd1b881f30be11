"""Counts of the situations that a random run came into: proof that it was not an empty one."""

from collections import Counter

from cache.config import Component, Tier
from cache.contract import Commit, Demand, LoadBack, Match, Room
from cache.locks import Lock
from cache.observer import Observer
from cache.table import PageTable
from cache.transfers import Copy, CopyState
from cache.tree import Node


class Seen(Observer):
    """Watches one cache, or several one after another."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._making_room = False

    def note(self, mark: str, happened: bool = True) -> None:
        self.counts[mark] += happened

    def matched(self, match: Match) -> None:
        self.note("hit", match.device.end > 0)
        self.note("loadable beyond the device", match.anchor is not match.device)

    def loaded_back(self, match: Match, result: LoadBack) -> None:
        self.note(f"load-back {result.outcome.name}")

    def settled(self, match: Match, table: PageTable) -> None:
        self.note("settled below the match", table.lock is not None and _less(table.lock, match))
        self.note("settled on copies in flight", bool(table.waits))

    def split(self, upper: Node, lower: Node) -> None:
        for tier in Tier:
            flying = any(copy is not None for copy in lower.inbound[tier])
            self.note(f"split under a copy to the {tier.name.lower()}", flying)
        doomed = [c for tier in Tier for c in lower.inbound[tier] if c is not None and c.doomed]
        self.note("split under a doomed copy", bool(doomed))
        self.note("split under a lock", any(map(any, lower.locks)))
        self.note("split of a leaving node", bool(lower.leaving))
        self.note("split of a node with a state", lower.slots[Tier.DEVICE][-1:] != [None])

    def issued(self, copy: Copy) -> None:
        self.note(copy.kind)
        self.note(f"{copy.kind} inside make_room", self._making_room)
        nodes = {part.node.number for part in copy.parts}
        self.note(f"{copy.kind} of several nodes", len(nodes) > 1)
        swa_only = all(part.component is Component.SWA for part in copy.parts)
        self.note(f"{copy.kind} of a window alone", swa_only)

    def acknowledged(self, copy: Copy) -> None:
        if copy.state is CopyState.DONE:
            self.note(f"{copy.kind} landed")
        else:
            self.note(f"{copy.kind} doomed" if copy.doomed else f"{copy.kind} failed")
        for part in copy.parts:
            node = part.node
            kept = bool(node.leaving) and any(node.locks[Tier.DEVICE])
            self.note("leaving node used again before its backup landed", kept)

    def filling(self, node: Node, tier: Tier, component: Component) -> None:
        if tier is Tier.DEVICE and component is Component.SWA:
            revived = node.ready(Tier.DEVICE, Component.FULL)
            self.note("tombstone revived by a load-back", revived)
        if tier is Tier.DEVICE and component is Component.MAMBA:
            self.note("state loaded back")
            self.note("state alone loaded back", node.ready(Tier.DEVICE, Component.FULL))

    def stored(self, node: Node, tier: Tier, component: Component) -> None:
        if tier is Tier.DEVICE and component is Component.SWA:
            self.note("tombstone revived by an insert", node.hits > 0)
        if tier is Tier.DEVICE and component is Component.MAMBA:
            self.note("state given to an old node", node.hits > 0)

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        kept = node.slots[Tier.DEVICE][Component.FULL] is not None
        if component is not Component.FULL:
            what = "window" if component is Component.SWA else "state"
            self.note(f"{what} given up above its FULL", tier is Tier.DEVICE and kept)
            return
        on_host = node.slots[Tier.HOST][Component.FULL] is not None
        if tier is Tier.DEVICE:
            self.note("demoted" if on_host else "dropped from the device")
            return
        self.note("host eviction")
        self.note("host eviction inside a device eviction", self._making_room)
        self.note("host-only node gone", not kept)

    def committed(self, table: PageTable, result: Commit) -> None:
        self.note("insert blocked by a copy", result.blocked)
        self.note("insert met a duplicate", result.duplicates > 0)
        self.note("insert adopted", result.adopted > 0)

    def narrowed(self, lock: Lock, component: Component) -> None:
        self.note("lock narrowed", component is Component.SWA)

    def forked(self, table: PageTable, node: Node) -> None:
        self.note("state forked")
        self.note("state forked as it landed", any(copy.in_flight for copy in table.waits))

    def making_room(self, demand: Demand) -> None:
        self._making_room = True

    def made_room(self, demand: Demand, room: Room) -> None:
        self._making_room = False
        self.note("room waited for", room.worth_waiting)
        self.note("no room", not room.enough and not room.worth_waiting)

    def flushed(self) -> None:
        self.note("flushed")


def _less(lock: Lock, match: Match) -> bool:
    return lock.anchor.end < match.anchor.end
