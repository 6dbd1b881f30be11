"""State transitions: how each component of a node came and went on each tier, what the other tier
had meanwhile, and whether somebody held it.

    absent > filling   a copy was issued into it
    filling > ready    the copy landed
    filling > absent   the copy failed, and its slots were given back
    absent > ready     a request inserted its own pages (on the device only)
    ready > absent     it was evicted

Held is what somebody beside the copy itself has locked. Invariant: `POSSIBLE` lists every
transition of a sound cache, so that what a hunt never reached can be told.
"""

from itertools import product
from typing import NamedTuple

from cache.config import DEVICE, FULL, HOST, Component, Tier
from cache.observer import Observer
from cache.storage_moves import Prefetch
from cache.transfers import Copy, CopyState
from cache.tree import Node

MOVES = (
    "absent > filling",
    "filling > ready",
    "filling > absent",
    "absent > ready",
    "ready > absent",
)
ISSUED, LANDED, FAILED, INSERTED, EVICTED = range(len(MOVES))
STATES = ("absent", "filling", "ready")
ABSENT, FILLING, READY = range(len(STATES))
LOCKS = ("free", "held")


class Transition(NamedTuple):
    """`other` is what the component has on the other tier; all but the two first are indices."""

    component: Component
    tier: Tier
    move: int
    other: int
    held: bool

    def __str__(self) -> str:
        return f"{self.row} {LOCKS[self.held]}"

    @property
    def row(self) -> str:
        """All but the lock."""
        other = DEVICE if self.tier is HOST else HOST
        return (
            f"{self.component.name} {self.tier.name.lower()} {MOVES[self.move]},"
            f" {other.name.lower()} {STATES[self.other]}"
        )

    @property
    def possible(self) -> bool:
        """A copy's source stays ready under its lock; what is held is not evicted; a load-back is
        issued under an admission lock; and nobody holds a node that is just being made."""
        match self.move:
            case 0:  # issued
                return self.other == READY and (self.held or self.tier is HOST)
            case 1 | 2:  # landed, failed
                return self.other == READY
            case 3:  # inserted
                new = self.component is FULL and self.other == ABSENT
                return self.tier is DEVICE and self.other != FILLING and not (new and self.held)
            case _:
                return self.other != FILLING and not self.held


EVERY = tuple(
    Transition(*parts)
    for parts in product(Component, Tier, range(len(MOVES)), range(len(STATES)), (False, True))
)
NAMES = tuple(str(transition) for transition in EVERY)
POSSIBLE = tuple(transition for transition in EVERY if transition.possible)


class Transitions(Observer):
    """Counts the transitions of one run; what a prefetch grafts is not one of them."""

    def __init__(self) -> None:
        self._counts = [0] * len(EVERY)
        self._filling: set[int] = set()
        self._grafting: set[int] = set()
        self._frozen = False

    def reached(self) -> tuple[str, ...]:
        """The names of the transitions of this run."""
        return tuple([name for name, n in zip(NAMES, self._counts, strict=True) if n])

    def freeze(self) -> None:
        """What is dropped from now on is not evicted but flushed."""
        self._frozen = True

    def filling(self, node: Node, tier: Tier, component: Component) -> None:
        place = _place(node, tier, component)
        if isinstance(node.inbound[tier][component], Prefetch):
            self._grafting.add(place)
            return
        self._filling.add(place)
        self._note(ISSUED, node, tier, component, 1)

    def stored(self, node: Node, tier: Tier, component: Component) -> None:
        place = _place(node, tier, component)
        if place in self._grafting:
            self._grafting.remove(place)
        elif place in self._filling:
            self._filling.remove(place)
            self._note(LANDED, node, tier, component, 1)
        else:
            self._note(INSERTED, node, tier, component, 0)

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        if not self._frozen:
            self._note(EVICTED, node, tier, component, 0)

    def acknowledged(self, copy: Copy) -> None:
        if copy.state is CopyState.FAILED:
            tier = copy.target
            for part in copy.parts:
                self._filling.discard(_place(part.node, tier, part.component))
                self._note(FAILED, part.node, tier, part.component, 0)

    def split(self, upper: Node, lower: Node) -> None:
        for tier in (DEVICE, HOST):
            for component, copy in enumerate(upper.inbound[tier]):
                if copy is not None:
                    self._filling.add(_place(upper, tier, component))

    def _note(
        self, move: int, node: Node, tier: Tier, component: Component, own_locks: int
    ) -> None:
        other = READY
        if node.slots[1 - tier][component] is None:
            other = ABSENT
        elif node.inbound[1 - tier][component] is not None:
            other = FILLING
        held = node.locks[tier][component] > own_locks
        place = 2 * component + tier
        self._counts[((place * len(MOVES) + move) * len(STATES) + other) * 2 + held] += 1


def _place(node: Node, tier: int, component: int) -> int:
    return (node.number * len(Tier) + tier) * len(Component) + component
