"""Defects of bringing windows and states from storage to nodes that have lost them: not asked for,
not held, attached to the wrong half of a node or at the wrong boundary, on one rank alone."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from cache.config import HOST, MAMBA, SWA, Component
from cache.locks import Lock
from cache.pools import Owner
from cache.ranks import RankedCache
from cache.storage_moves import Prefetch, Wanted
from cache.storage_tier import StorageTier
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.faults.fault import Family, patch

family = Family("revivals", "storage", "narrow")
Tamper = Callable[[UnifiedCache, StorageTier], None]


def fault(*oracles: str, reference: str = "") -> Callable[[Tamper], Tamper]:
    """A cache without storage, or with FULL alone, is left as it is."""

    def add(tamper: Tamper) -> Tamper:
        @wraps(tamper)
        def apply(cache: UnifiedCache) -> None:
            if cache.storage is not None and len(cache.config.components) > 1:
                tamper(cache, cache.storage)

        family.fault(*oracles, reference=reference)(apply)
        return tamper

    return add


@fault("M2")
def prefetch_begins_where_nodes_end(cache: UnifiedCache, storage: StorageTier) -> None:
    """A prefetch begins where the tree's nodes end, whatever they have lost.

    A prefix whose window or state is gone is computed again, although storage has both.
    """

    def servable(original: Any, deepest: Node) -> int:
        return deepest.end

    patch(storage.lacking, "servable", servable)


@fault("L1")
def lost_window_not_held(cache: UnifiedCache, storage: StorageTier) -> None:
    """A prefetch holds the window above its anchor, and not the one that it brings back.

    What has been brought back of it meanwhile, or is still there, may be evicted before the rest
    has come.
    """

    def acquire(original: Any, anchor: Node, reach: Any, tiers: Any, holder: str) -> Lock:
        if holder == "prefetch" and SWA in cache.config.components:
            needed = cache.rules[SWA].needed_from(anchor.end + cache.config.page_size)
            reach[SWA] = max(reach[SWA], min(needed, anchor.end))
        lock: Lock = original(anchor, reach, tiers, holder)
        return lock

    patch(cache.locks, "acquire", acquire)


@fault("C1", "M2")
def split_node_takes_the_first_pages(cache: UnifiedCache, storage: StorageTier) -> None:
    """A prefetch remembers by node where the pages that it brings begin.

    A node that is split meanwhile is given the pages of its upper half, or none; the upper half
    none.
    """
    starts: dict[int, dict[int, int]] = {}  # by prefetch: where its nodes began
    moved: dict[int, int] = {}  # by node: how many pages later it begins now

    def reserve(original: Any, prefetch: Prefetch) -> None:
        starts[prefetch.number] = {n.number: n.start for n in prefetch.anchor.ancestors()}
        original(prefetch)

    def graft(original: Any, prefetch: Prefetch) -> None:
        began = starts.get(prefetch.number, {})
        moved.clear()
        for node in prefetch.anchor.ancestors():
            later = node.start - began.get(node.number, node.end)
            moved[node.number] = later // cache.config.page_size
        original(prefetch)

    def give(original: Any, prefetch: Prefetch, node: Node, component: Component) -> None:
        shift, held = moved.get(node.number, 0), prefetch.held.get(component, {})
        size = cache.config.page_size
        pages = [page for page in range(node.start // size, node.end // size) if page in held]
        if not shift or (shift > 0 and component is MAMBA):
            original(prefetch, node, component)
        elif shift > 0 and all(page - shift in held for page in pages):
            for page in pages:
                held[page], held[page - shift] = held[page - shift], held[page]
            original(prefetch, node, component)

    patch(storage.prefetches, "_reserve", reserve)
    patch(storage.grafting, "graft", graft)
    patch(storage.grafting, "_give", give)


@fault("O1", "P3")
def window_that_came_back_is_overwritten(cache: UnifiedCache, storage: StorageTier) -> None:
    """What storage brings goes to a node although somebody has computed it again meanwhile.

    The host slots that the node had are nobody's from then on.
    """

    def fill(original: Any, prefetch: Prefetch, node: Node, now: int) -> None:
        size = cache.config.page_size
        for component in cache.residency.small:
            last = node.end // size - 1
            first = last if component is MAMBA else node.start // size
            slots = node.slots[HOST][component]
            held = prefetch.held.get(component, {})
            if slots is not None and not node.inbound[HOST][component] and first in held:
                own = prefetch.take(component, first, last + 1)
                if own:
                    cache.residency.pools[HOST, component].move(own, Owner.COPY, Owner.NODE)
                    node.slots[HOST][component] = own
        original(prefetch, node, now)

    patch(storage.grafting, "_fill", fill)


@fault("C1")
def state_given_to_the_whole_node(cache: UnifiedCache, storage: StorageTier) -> None:
    """A state that has come for a boundary inside a node is given to that node, which is not cut.

    Its end then has the state of a shorter prefix, and whoever goes on from it misses tokens.
    """

    def graft(original: Any, prefetch: Prefetch) -> None:
        stop = storage.grafting._stop(prefetch)
        if stop and prefetch.wanted[-1].component is MAMBA:
            for node in prefetch.anchor.ancestors():
                if node.start < stop < node.end and node.slots[HOST][MAMBA] is None:
                    held = prefetch.held[MAMBA]
                    slots = [held.pop(stop // cache.config.page_size - 1)]
                    cache.residency.reserve(node, (HOST, MAMBA), slots, prefetch)
                    cache.residency.land(node, (HOST, MAMBA))
        original(prefetch)

    patch(storage.grafting, "graft", graft)


@fault("M1", "M2")
def window_of_the_whole_prompt_fetched(cache: UnifiedCache, storage: StorageTier) -> None:
    """What is fetched of a window is what the whole prompt would need, though storage has less of
    it.

    The prefix that comes of it has a hole where its own window begins, and nobody can use it.
    """
    if SWA not in cache.config.components:
        return
    limits: list[int] = []

    def reserve(original: Any, prefetch: Prefetch) -> None:
        limits[:] = [prefetch.limit]
        original(prefetch)

    def wanted(original: Any, anchor: Node, end: int) -> list[Wanted]:
        found: list[Wanted] = original(anchor, end)
        first = cache.rules[SWA].needed_from(limits[0]) // cache.config.page_size
        return [w for w in found if w.component is not SWA or w.page >= first] or found

    patch(storage.prefetches, "_reserve", reserve)
    patch(storage.lacking, "wanted", wanted)


@fault("M1", "M2")
def what_the_tree_has_is_fetched_again(cache: UnifiedCache, storage: StorageTier) -> None:
    """A prefetch brings the whole window, though the tree has lost one node's part of it.

    Host slots are taken, and evicted for, to be given back when it is over.
    """

    def wanted(original: Any, anchor: Node, end: int) -> list[Wanted]:
        found: list[Wanted] = original(anchor, end)
        size = cache.config.page_size
        if SWA not in cache.config.components or not found or found[0].page * size >= anchor.end:
            return found
        window = range(cache.rules[SWA].needed_from(end) // size, end // size)
        more = [Wanted(s, p) for s in storage.strands if s.component is SWA for p in window]
        return sorted({*found, *more}, key=lambda w: (w.page, storage.strands.index(w.strand)))

    patch(storage.lacking, "wanted", wanted)


@fault("M2")
def node_without_a_window_left_out(cache: UnifiedCache, storage: StorageTier) -> None:
    """What has come from storage goes to new nodes only.

    What nodes that were there have lost is fetched, given back, and fetched again.
    """

    def fill(original: Any, prefetch: Prefetch, node: Node, now: int) -> None:
        if node.end > prefetch.anchor.end:
            original(prefetch, node, now)

    patch(storage.grafting, "_fill", fill)


@family.between("R1", "D1", "O1")
def own_count_revived(cache: RankedCache) -> None:
    """A rank gives nodes what has come to it of what they had lost, not what has come to all.

    Its prefix can be loaded back further than the others'.
    """
    storage = cache.ranks[-1].storage
    if storage is None:
        return

    def graft(original: Any, prefetch: Prefetch) -> None:
        size = cache.config.page_size
        if prefetch.wanted and prefetch.wanted[0].page * size < prefetch.anchor.end:
            prefetch.granted = prefetch.arrived
        original(prefetch)

    patch(storage.grafting, "graft", graft)
