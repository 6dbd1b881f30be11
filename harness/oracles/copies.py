"""D1, D2: nothing of a copy is touched before it is acknowledged, and every copy is, once."""

from cache.config import Component, Tier, WritePolicy
from cache.contract import Reading
from cache.pools import Owner, SlotPool
from cache.table import PageTable
from cache.transfers import Copy, CopyState
from cache.tree import Node
from harness.oracles.base import Oracle


class Flight:
    """A copy as it was issued: its target and source slots by pool, and whether its bytes moved."""

    __slots__ = ("copy", "doomed", "ran", "sources", "targets")

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        self.targets: dict[SlotPool, list[int]] = {}
        self.sources: dict[SlotPool, list[int]] = {}
        self.ran = False
        self.doomed = False


class Copies(Oracle):
    """From issue to acknowledgement no source or target slot is released, rewritten, read early or
    handed on (D1). Copies of a direction run and are acknowledged in order of issue, each once;
    what did not run, or hung below what failed, ends as failed and what ran as done; every page of
    it is then ready, or given back (D2). Silent about copies that never end until rest."""

    name = "copies"

    def applies(self) -> bool:
        return self.cache.config.hierarchical

    def begin(self) -> None:
        self._flights: dict[int, Flight] = {}
        self._cuts: list[Node] = []  # halves of nodes that were split within the operation
        self._targets: dict[SlotPool, dict[int, Flight]] = {}
        self._sources: dict[SlotPool, dict[int, Flight]] = {}
        for pool in self.cache.pools.values():
            self._targets[pool], self._sources[pool] = {}, {}
        self._order: dict[Tier, list[Flight]] = {Tier.DEVICE: [], Tier.HOST: []}
        self._full_targets = self._targets[self.device_full]
        swa = self.cache.pools.get((Tier.DEVICE, Component.SWA))
        self._swa_targets = self._targets[swa] if swa is not None else {}

    def issued(self, copy: Copy) -> None:
        flight = Flight(copy)
        if copy.number in self._flights:
            self.report("D2", "issued.twice", "a new copy", copy)
        self._flights[copy.number] = flight
        self._order[copy.target].append(flight)
        pools = self.cache.pools
        for _, component, source, target in copy.parts:
            there, here = pools[copy.target, component], pools[copy.source, component]
            flight.targets.setdefault(there, []).extend(target)
            flight.sources.setdefault(here, []).extend(source)
        for pool, slots in flight.targets.items():
            busy = self._targets[pool].keys() & slots or self._sources[pool].keys() & slots
            if busy or len(set(slots)) != len(slots):
                expected = "target slots that no copy uses, each once"
                self.report("D1", f"issued.target.{pool.name}", expected, sorted(busy) or slots)
            self._targets[pool].update(dict.fromkeys(slots, flight))
        for pool, slots in flight.sources.items():
            if not self._targets[pool].keys().isdisjoint(slots):
                self.report("D1", f"issued.source.{pool.name}", "landed source slots", slots)
            self._sources[pool].update(dict.fromkeys(slots, flight))
        self._queue(copy.target)

    def running(self, copy: Copy) -> None:
        flight = self._flights.get(copy.number)
        if flight is None:
            self.report("D2", "ran.unknown", "a copy in flight", copy)
            return
        if flight.ran:
            self.report("D2", "ran.twice", "a copy that has not run", copy)
        flight.ran = True
        for other in self._order[copy.target]:
            if other is flight:
                break
            if not other.ran and other.copy.state is CopyState.QUEUED:
                self.report("D2", "ran.order", f"{other.copy} first", copy)

    def overruled(self, copy: Copy) -> None:
        """Another rank's copy failed, so this one is not expected to be done."""
        if copy.number in self._flights:
            self._flights[copy.number].ran = False

    def releasing(self, pool: SlotPool, slots: list[int], owner: Owner) -> None:
        targets, sources = self._targets[pool], self._sources[pool]
        if not targets and not sources:
            return
        if not sources.keys().isdisjoint(slots):
            flight = next(sources[s] for s in slots if s in sources)
            self.report("D1", f"release.source.{pool.name}", f"kept for {flight.copy}", slots)
        if not targets.keys().isdisjoint(slots):
            flight = next(targets[s] for s in slots if s in targets)
            given_up = flight.copy.state is CopyState.BROKEN or flight.copy.doomed
            if self._queued(flight.copy) or not given_up:
                self.report("D1", f"release.target.{pool.name}", f"kept for {flight.copy}", slots)

    def moved(self, pool: SlotPool, slots: list[int], old: Owner, new: Owner) -> None:
        targets = self._targets[pool]
        if not targets or targets.keys().isdisjoint(slots):
            return
        flight = next(targets[s] for s in slots if s in targets)
        if not flight.ran:
            self.report("D1", f"landed.unrun.{pool.name}", f"{flight.copy} has run first", slots)
        elif self._queued(flight.copy):
            self.report("D1", f"landed.early.{pool.name}", "an acknowledgement first", flight.copy)

    def writing(self, pool: SlotPool, slots: list[int], prints: list[int]) -> None:
        for what, busy in (("target", self._targets[pool]), ("source", self._sources[pool])):
            if busy and not busy.keys().isdisjoint(slots):
                flight = next(busy[s] for s in slots if s in busy)
                self.report("D1", f"write.{what}.{pool.name}", f"kept for {flight.copy}", slots)

    def reading(self, table: PageTable, tokens: int, reading: Reading) -> None:
        if not self._full_targets and not self._swa_targets:
            return
        full = table.full[: tokens // self.page_size]
        early = not self._full_targets.keys().isdisjoint(full)
        if not early and self.windowed and self._swa_targets:
            window = self.cache.residency.map.lookup(full[reading.swa_start :])
            early = not self._swa_targets.keys().isdisjoint(window)
        if early:
            self.report("D1", "read.early", "every copy into the prefix acknowledged", table.holder)

    def forked(self, table: PageTable, node: Node) -> None:
        """At the earliest when the scheduler takes note that the state has landed."""
        slots = node.slots[Tier.DEVICE][Component.MAMBA] or [-1]
        flight = self._targets[self.cache.pools[Tier.DEVICE, Component.MAMBA]].get(slots[0])
        coming = node.inbound[Tier.DEVICE][Component.MAMBA] is not None
        if coming or (flight is not None and self._queued(flight.copy)):
            self.report("D1", "fork.early", f"the state of {node} landed", table.holder)

    def split(self, upper: Node, lower: Node) -> None:
        if self._flights:
            self._cuts += (upper, lower)
            self.pending[self] = None

    def review(self) -> None:
        cuts, self._cuts = self._cuts, []
        for node in cuts:
            if node.parent is not None:
                for tier, component in self.cache.pools:
                    self._half(node, tier, component)

    def acknowledged(self, copy: Copy) -> None:
        flight = self._flights.pop(copy.number, None)
        if flight is None:
            self.report("D2", "acknowledged.twice", "a copy in flight", copy)
            return
        order = self._order[copy.target]
        if order[0] is not flight:
            self.report("D2", "acknowledged.order", f"{order[0].copy} first", copy)
        order.remove(flight)
        for slots_of, busy in ((flight.targets, self._targets), (flight.sources, self._sources)):
            for pool, slots in slots_of.items():
                for slot in slots:
                    busy[pool].pop(slot, None)
        self._queue(copy.target)
        if copy.state is CopyState.DONE:
            self._done(flight)
        elif copy.state is CopyState.FAILED:
            self._failed(flight)
        else:
            self.report("D2", "acknowledged.state", "done or failed", copy)

    def at_rest(self) -> None:
        for flight in self._flights.values():
            self.report("D2", "unacknowledged", "nothing in flight at rest", flight.copy)
        if len(self.cache.transfers):
            self.report("D2", "queued", "empty queues at rest", len(self.cache.transfers))

    # -- the end of a copy -----------------------------------------------------------------------

    def _done(self, flight: Flight) -> None:
        copy = flight.copy
        if not flight.ran:
            self.report("D2", "done.unrun", "failed, for its bytes never moved", copy)
        elif flight.doomed:
            self.report("D2", "done.doomed", "failed with the copy it builds on", copy)
        hands = self.shadows.holdings.hands
        for pool, slots in flight.targets.items():
            if any(holder is copy for holder in hands[pool].of(slots)):
                self.report("D2", f"done.part.{pool.name}", f"all pages of {copy} ready", slots)
        for node, component, _, _ in copy.parts:
            if not node.ready(copy.target, component):
                self.report("D2", f"done.node.{component.name.lower()}", f"{node} ready", copy)

    def _failed(self, flight: Flight) -> None:
        copy = flight.copy
        if flight.ran and not flight.doomed:
            self.report("D2", "failed.ran", "done, for its bytes moved", copy)
        hands = self.shadows.holdings.hands
        for pool, slots in flight.targets.items():
            if any(holder is copy for holder in hands[pool].of(slots)):
                self.report("D2", f"failed.part.{pool.name}", f"slots of {copy} free", slots)
        self._doom(copy)

    def _doom(self, failed: Copy) -> None:
        """Whatever was to hang below FULL that did not come must be given back, too."""
        gone = {part.node for part in failed.parts if part.component is Component.FULL}
        back = self.cache.config.write_policy is WritePolicy.WRITE_BACK
        alone = back and failed.target is Tier.HOST  # then a child needs no parent
        for flight in self._order[failed.target]:
            for part in flight.copy.parts:
                path = (part.node,) if alone else part.node.ancestors()
                if any(node in gone for node in path):
                    flight.doomed = True
                    break
            if flight.doomed != flight.copy.doomed:
                expected = "doomed" if flight.doomed else "sound"
                self.report("D2", "doom", f"{flight.copy} {expected} after {failed}", "not so")

    # -- helpers -----------------------------------------------------------------------------

    def _queued(self, copy: Copy) -> bool:
        return copy in self.cache.transfers.queues[copy.target]

    def _queue(self, target: Tier) -> None:
        """The queue holds what was issued and not acknowledged, in that order."""
        queue = self.cache.transfers.queues[target]
        if len(queue) != len(self._order[target]):
            seen = [str(copy) for copy in queue]
            self.report("D2", "queue", [str(f.copy) for f in self._order[target]], seen)

    def _half(self, node: Node, tier: Tier, component: Component) -> None:
        """Half of a node that was split is filling exactly if a copy is on its way into it."""
        slots = node.slots[tier][component]
        if not slots:
            return
        flight = self._targets[self.cache.pools[tier, component]].get(slots[0])
        copy = None if flight is None else flight.copy
        inbound = node.inbound[tier][component]
        if inbound is not copy:
            self.report(
                "D1", f"split.{component.name.lower()}", f"{node} filled by {copy}", inbound
            )
        elif copy is not None and not any(
            part.node is node and part.component is component for part in copy.parts
        ):
            self.report("D2", "split.part", f"a part of {copy} for {node}", "none")
