"""Defects of progress: room that is not made, not found, or promised in vain."""

from typing import Any

from cache.config import Component, Tier
from cache.contract import Demand, Room
from cache.unified import UnifiedCache
from harness.faults.fault import Family, patch

family = Family("progress")
DEVICE = Tier.DEVICE


@family.fault("P2")
def eviction_stops_early(cache: UnifiedCache) -> None:
    """Eviction gives up one page short of what was asked.

    Whoever asked waits for room that is there.
    """

    def make_room(original: Any, component: Component, wanted: int) -> None:
        original(component, max(0, wanted - 1))

    patch(cache.evictor, "_make_room", make_room)


@family.fault("P1")
def waits_inside_for_room(cache: UnifiedCache) -> None:
    """Making room tries again and again while copies are in flight.

    The thread that spins is the one that would let them land.
    """

    def make_room(original: Any, demand: Demand) -> Room:
        room: Room = original(demand)
        while any(room.short) and len(cache.transfers):
            room = original(demand)
        return room

    patch(cache.evictor, "make_room", make_room)


@family.fault("P2")
def trim_a_page_too_many(cache: UnifiedCache) -> None:
    """Trimming a leaf takes one page more than is short.

    Cache is lost for nothing, a page at a time.
    """
    patch(cache.residency, "trim", lambda original, node, pages: original(node, pages + 1))


@family.fault("P2")
def room_on_its_way_not_counted(cache: UnifiedCache) -> None:
    """What backups in flight are about to free is not counted when room is made.

    More is evicted than is short, and nobody is told that waiting would help.
    """
    patch(cache.residency, "leaving_pages", lambda original: tuple(0 for _ in original()))


@family.fault("P2", "P1")
def room_promised_in_vain(cache: UnifiedCache) -> None:
    """Room that nothing in flight will bring is reported as pending.

    The scheduler waits for copies that do not exist.
    """

    def make_room(original: Any, demand: Demand) -> Room:
        room: Room = original(demand)
        return room._replace(pending=tuple(9 for _ in room.pending)) if any(room.short) else room

    patch(cache.evictor, "make_room", make_room)


@family.fault("P2")
def budget_leaves_evictable_out(cache: UnifiedCache) -> None:
    """The admission budget counts free slots only.

    A full cache admits nobody although all of it could be evicted.
    """
    patch(cache, "available", lambda original, component: cache.pools[DEVICE, component].free_slots)


@family.fault("S6", "P2")
def unlocked_nodes_not_listed_again(cache: UnifiedCache) -> None:
    """A node that becomes free is not put back among the victims.

    The cache fills up with what nobody holds and nobody may evict.
    """

    def turn(original: Any, node: Any, tier: Tier, component: Component, step: int) -> None:
        if step > 0:
            original(node, tier, component, step)

    patch(cache.locks, "_on_turn", turn)


@family.fault("P3")
def flush_forgets(cache: UnifiedCache) -> None:
    """A flush answers yes and flushes nothing.

    The next model's prefixes meet the last one's.
    """

    def flush(original: Any) -> bool:
        return not (len(cache.locks) or len(cache.transfers) or cache.tables)

    patch(cache, "flush", flush)


@family.fault("P3", "L1", "O1", "D1", "S2", "M1", "crash")
def flush_while_in_use(cache: UnifiedCache) -> None:
    """A flush empties the cache although requests and copies hold parts of it.

    Whoever runs goes on with slots that are somebody else's by then.
    """

    def flush(original: Any) -> bool:
        for node in reversed(list(cache.tree.nodes())):
            for tier in Tier:
                for component in reversed(cache.config.components):
                    if node.ready(tier, component):
                        cache.residency.drop(node, tier, component)
        cache.observer.flushed()
        return True

    patch(cache, "flush", flush)


@family.fault("P2")
def window_locked_for_life(cache: UnifiedCache) -> None:
    """A request keeps its lock on the window of the prefix that it has long left behind.

    The window pool is held by windows that nobody reads any more.
    """
    patch(cache.locks, "narrow", lambda original, lock, component: None)


@family.fault("crash", "P2")
def stuck_host_copies_counted(cache: UnifiedCache) -> None:
    """Host copies that a failed load-back's holder still needs count as room on the host.

    Room is promised that nobody can make: whoever goes for it finds no victim.
    """
    patch(cache.residency, "_stuck_pages", lambda original: 0)
