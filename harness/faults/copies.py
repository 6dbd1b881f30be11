"""Defects of copies: run, acknowledged or given back at the wrong time, or not whole."""

from typing import Any

from cache.config import Component, Tier
from cache.transfers import Copy, CopyState, Part
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.faults.fault import Family, forgotten, patch

family = Family("copies")
DEVICE, HOST = Tier.DEVICE, Tier.HOST
FULL, SWA = Component.FULL, Component.SWA


@family.fault("D2", "C1", "D1")
def acknowledged_before_run(cache: UnifiedCache) -> None:
    """One acknowledgement takes the next copy of its direction along, run or not.

    The counter of landed copies is read once and believed twice: the second copy's pages are served
    before a byte of them has moved.
    """

    def acknowledge(original: Any, copy: Copy) -> None:
        original(copy)
        queue = cache.transfers.queues[copy.target]
        if queue and queue[0].state is CopyState.QUEUED:
            queue[0].state = CopyState.RAN
            original(queue[0])

    patch(cache, "acknowledge", acknowledge)


@family.fault("D2")
def acknowledged_out_of_order(cache: UnifiedCache) -> None:
    """Of several copies that have run the newest is acknowledged first.

    A child's pages become ready below a parent that is still filling; if the parent's copy then
    fails, nobody takes the child's back.
    """
    queues = cache.transfers.queues

    def next_to_acknowledge(original: Any, target: Tier) -> Copy | None:
        landed = [copy for copy in queues[target] if copy.state is not CopyState.QUEUED]
        return landed[-1] if landed else None

    patch(cache.transfers, "next_to_acknowledge", next_to_acknowledge)
    patch(cache.transfers, "retire", lambda original, copy: queues[copy.target].remove(copy))


@family.fault("L1", "S6")
def lock_released_when_run(cache: UnifiedCache) -> None:
    """A load-back's lock goes when its bytes have moved, not when that is acknowledged.

    Between the two its source may be evicted and its target looks free to go.
    """

    def run(original: Any, copy: Copy) -> None:
        original(copy)
        if copy.target is DEVICE:
            cache.locks.release(copy.lock)

    def release(original: Any, lock: Any) -> None:
        if lock.live:
            original(lock)

    patch(cache.transfers, "run", run)
    patch(cache.locks, "release", release)


@family.fault("D2", "O1")
def failed_copy_leaks_slots(cache: UnifiedCache) -> None:
    """What a failed copy had reserved is not given back.

    The node forgets its slots, and no one else learns that they are free.
    """

    def give_back(original: Any, node: Node, place: tuple[Tier, Component]) -> None:
        pool = cache.pools[place]
        with forgotten(pool, "release"):
            original(node, place)

    patch(cache.residency, "give_back", give_back)


@family.fault("L1", "L3")
def failed_copy_keeps_its_lock(cache: UnifiedCache) -> None:
    """The error path of a copy does not hand its lock back.

    Every failure pins a path on both tiers for ever.
    """

    def acknowledge(original: Any, copy: Copy) -> None:
        if copy.state is not CopyState.BROKEN:
            original(copy)
            return
        with forgotten(cache.locks, "release"):
            original(copy)

    patch(cache, "acknowledge", acknowledge)


@family.fault("D2", "S4", "S5")
def doomed_copy_lands(cache: UnifiedCache) -> None:
    """A copy that hangs below a failed one is taken for landed because its own bytes moved.

    Its node has FULL below a parent that has none.
    """

    def acknowledge(original: Any, copy: Copy) -> None:
        copy.doomed = False
        original(copy)

    patch(cache, "acknowledge", acknowledge)


@family.fault("C1", "C2", "D1")
def last_page_not_copied(cache: UnifiedCache) -> None:
    """A transfer of several pages stops one short.

    The length is rounded down somewhere between pages and bytes; the last page is whatever was
    there before.
    """

    def run(original: Any, copy: Copy) -> None:
        parts = copy.parts
        copy.parts = [_shorter(part) if len(part.source) > 1 else part for part in parts]
        try:
            original(copy)
        finally:
            copy.parts = parts

    patch(cache.transfers, "run", run)


@family.fault("C1")
def pages_copied_in_reverse(cache: UnifiedCache) -> None:
    """The index lists of a batched copy are sorted differently for source and target.

    Every page arrives, at another page's place.
    """

    def run(original: Any, copy: Copy) -> None:
        parts = copy.parts
        copy.parts = [part._replace(source=part.source[::-1]) for part in parts]
        try:
            original(copy)
        finally:
            copy.parts = parts

    patch(cache.transfers, "run", run)


@family.fault("P2", "L1", "S6")
def landed_victims_stay(cache: UnifiedCache) -> None:
    """A victim whose backup has landed is not dropped then.

    Whoever waited for its slots waits on: the room that was promised never comes.
    """
    patch(cache.evictor, "conclude", lambda original, node: cache.residency.left(node))


@family.fault("P2")
def window_takes_the_pages_along(cache: UnifiedCache) -> None:
    """A window, or a state, that waits for its backup is noted as if the whole node were to go.

    The forecast counts pages that those below it will keep, and further windows are given up.
    """
    patch(cache.residency, "leave", lambda original, node, component: original(node, FULL))


@family.fault("S6", "P2")
def leaving_node_not_listed(cache: UnifiedCache) -> None:
    """A node that waits for its backup is marked, and missing in the list of those that do.

    Room that is on its way is not counted, and more is given up for it.
    """

    def leave(original: Any, node: Any, component: Any) -> None:
        original(node, component)
        cache.residency.left(node)

    patch(cache.residency, "leave", leave)


@family.fault("D1", "M1", "S6")
def insert_takes_what_is_filling(cache: UnifiedCache) -> None:
    """An insert does not stop above a node that a copy is filling.

    The request's own, computed pages are swapped for pages that have not arrived.
    """
    patch(cache.insertion, "_is_filling", lambda original, node: False)


def _shorter(part: Part) -> Part:
    return part._replace(source=part.source[:-1], target=part.target[:-1])
