"""What storage keeps as objects of their own: for each page one of every strand.

A strand is a component, with those of its companions that travel inside its object, or a companion
apart. Invariant: a page of a component is in storage when all its strands are; any of them may be
missing, for each is kept, refused and given up by itself.
"""

from typing import NamedTuple

from cache.companions import CompanionSlots
from cache.config import CacheConfig, Component
from cache.pools import SlotPool
from cache.stores import Store

ITSELF = -1


class Strand(NamedTuple):
    """`number` is its bit in `Node.persisted`: that of its component, or one beyond all of them.
    `parts` is what lies in its object: ITSELF for the component, else the place of a companion
    beside the component's pools. `slot_bytes` are the bytes of one object."""

    number: int
    component: Component
    name: str
    parts: tuple[int, ...]
    slot_bytes: int

    def read(self, pool: SlotPool, slots: list[int]) -> list[tuple[int, ...]]:
        """What goes into its objects, slot by slot."""
        return list(zip(*(place.read(slots) for place in self._places(pool)), strict=True))

    def bodies(self, pool: SlotPool, slots: list[int]) -> list[tuple[memoryview, ...]]:
        """What lies behind that, slot by slot; empty where there is no more to a page."""
        return list(zip(*(at.bodies(slots) for at in self._places(pool)), strict=True))

    def sizes(self, pool: SlotPool) -> tuple[int, ...]:
        """The bytes of each of the bodies."""
        return tuple(place.body_bytes for place in self._places(pool))

    def restore(
        self,
        pool: SlotPool,
        slot: int,
        contents: tuple[int, ...],
        bodies: tuple[memoryview, ...],
    ) -> None:
        """What has come in one of its objects."""
        for place, content, body in zip(self._places(pool), contents, bodies, strict=True):
            place.restore(slot, content, body)

    def _places(self, pool: SlotPool) -> list[Store | CompanionSlots]:
        return [pool.bare if part == ITSELF else pool.companions[part] for part in self.parts]


def strands_of(config: CacheConfig) -> tuple[Strand, ...]:
    """Heads before tails: each component and, behind it, its companions apart."""
    found, beyond = list[Strand](), len(Component)
    for component in config.components:
        name = component.name.lower()
        beside = list(enumerate(config.companions_of(component)))
        inside = [(at, companion) for at, companion in beside if not companion.apart]
        size = config.page_bytes[component] + sum(c.slot_bytes for _, c in inside)
        parts = (ITSELF, *(at for at, _ in inside))
        found.append(Strand(component, component, name, parts, size))
        for at, c in beside:
            if c.apart:
                number = beyond + config.companions.index(c)
                found.append(Strand(number, component, f"{name}.{c.name}", (at,), c.slot_bytes))
    return tuple(found)
