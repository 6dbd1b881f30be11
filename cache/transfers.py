"""Two-phase copies: issue, run, acknowledge.

Invariant (D1, D2): between issue and acknowledgement no source slot is freed or rewritten and no
target slot is read or given away; every issued copy is acknowledged exactly once.
"""

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from cache.config import MAMBA, Component, Tier
from cache.observer import Observer
from cache.stores import Store

if TYPE_CHECKING:
    from cache.locks import Lock
    from cache.tree import Node


class CopyState(Enum):
    QUEUED = "queued"
    RAN = "ran"  # the bytes have moved
    BROKEN = "broken"  # the transfer failed; nothing may be read at the target
    DONE = "done"
    FAILED = "failed"


class Part(NamedTuple):
    """The slots of one node's component: source[i] goes to target[i]."""

    node: "Node"
    component: Component
    source: list[int]
    target: list[int]


class Copy:
    """One transfer between tiers: a backup (to the host) or a load-back (to the device).

    `doomed` means that a copy which this one builds on has failed: it will be given back whatever
    its own bytes do."""

    def __init__(self, number: int, target: Tier, parts: list[Part], lock: "Lock") -> None:
        self.number = number
        self.target = target
        self.parts = parts
        self.lock = lock
        self.state = CopyState.QUEUED
        self.doomed = False

    @property
    def source(self) -> Tier:
        return Tier.HOST if self.target is Tier.DEVICE else Tier.DEVICE

    @property
    def kind(self) -> str:
        return "load-back" if self.target is Tier.DEVICE else "backup"

    @property
    def in_flight(self) -> bool:
        return self.state not in (CopyState.DONE, CopyState.FAILED)

    def pages(self, component: Component) -> int:
        return sum(len(p.target) for p in self.parts if p.component is component)

    def follow_split(self, upper: "Node", lower: "Node", pages: int) -> None:
        """A node of this copy was cut: so is its part, unless that is the state of its end."""
        parts: list[Part] = []
        for part in self.parts:
            if part.node is not lower or part.component is MAMBA:
                parts.append(part)
                continue
            _, component, source, target = part
            parts.append(Part(upper, component, source[:pages], target[:pages]))
            parts.append(Part(lower, component, source[pages:], target[pages:]))
        self.parts = parts

    def __repr__(self) -> str:
        return f"{self.kind} {self.number} ({self.state.value})"


class Transfers:
    """The copies in flight, one first-in-first-out queue for each direction.

    A stream (the world's) takes the head of a queue, moves its bytes with `run`, and leaves it to
    the scheduler to acknowledge, in order."""

    def __init__(self, stores: dict[tuple[Tier, Component], Store], observer: Observer) -> None:
        self._stores = stores
        self._observer = observer
        self._numbers = 0
        self.queues: dict[Tier, deque[Copy]] = {Tier.DEVICE: deque(), Tier.HOST: deque()}

    def __len__(self) -> int:
        return len(self.queues[Tier.DEVICE]) + len(self.queues[Tier.HOST])

    def issue(self, target: Tier, parts: list[Part], lock: "Lock") -> Copy:
        """Queue a copy whose target slots are reserved and whose nodes are locked."""
        assert parts
        assert all(len(p.source) == len(p.target) for p in parts)
        self._numbers += 1
        copy = Copy(self._numbers, target, parts, lock)
        self.queues[target].append(copy)
        self._observer.issued(copy)
        return copy

    def next_to_run(self, target: Tier) -> Copy | None:
        """The oldest copy towards `target` whose bytes have not moved."""
        return next((c for c in self.queues[target] if c.state is CopyState.QUEUED), None)

    def next_to_acknowledge(self, target: Tier) -> Copy | None:
        """The oldest copy towards `target`, if it has run."""
        queue = self.queues[target]
        return queue[0] if queue and queue[0].state is not CopyState.QUEUED else None

    def run(self, copy: Copy) -> None:
        """The bytes move, here and now."""
        self._check_turn(copy)
        self._observer.running(copy)
        for _, component, source, target in copy.parts:
            origin = self.store(copy.source, component)
            self.store(copy.target, component).take(origin, source, target)
        copy.state = CopyState.RAN

    def moved(self, copy: Copy) -> None:
        """The bytes have moved meanwhile, on a stream of the world's own."""
        self._check_turn(copy)
        self._observer.running(copy)
        copy.state = CopyState.RAN

    def break_off(self, copy: Copy) -> None:
        """The transfer fails instead: no byte of the target may be trusted."""
        self._check_turn(copy)
        copy.state = CopyState.BROKEN

    def overrule(self, copy: Copy) -> None:
        """Another rank's part of the transfer failed: this one, which ran, is broken with it."""
        assert copy.state is CopyState.RAN
        copy.state = CopyState.BROKEN
        self._observer.overruled(copy)

    def retire(self, copy: Copy) -> None:
        """Take an acknowledged copy off its queue."""
        queue = self.queues[copy.target]
        assert queue, "nothing of this direction is in flight"
        assert queue[0] is copy, "copies of a direction are acknowledged in order"
        assert copy.state in (CopyState.RAN, CopyState.BROKEN)
        queue.popleft()

    def store(self, tier: Tier, component: Component) -> Store:
        """Where the pages of a place lie."""
        return self._stores[tier, component]

    def _check_turn(self, copy: Copy) -> None:
        assert copy is self.next_to_run(copy.target), "copies of a direction run in order"

    def follow_split(self, upper: "Node", lower: "Node", pages: int) -> None:
        seen: list[Copy] = []
        for tier in Tier:
            for copy in lower.inbound[tier]:
                if copy is not None and copy not in seen:
                    seen.append(copy)
                    copy.follow_split(upper, lower, pages)
