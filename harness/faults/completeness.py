"""Defects of completeness: nothing wrong is served, and what could have been served is not."""

from typing import Any

from cache.components import Walk
from cache.config import Component, Tier
from cache.pools import Owner
from cache.table import PageTable
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.faults.fault import Family, patch

family = Family("completeness")
DEVICE, HOST = Tier.DEVICE, Tier.HOST
FULL, SWA = Component.FULL, Component.SWA


@family.fault("M2", reference="sglang PR 33713")
def only_copy_dropped(cache: UnifiedCache) -> None:
    """An inner node's only window copy is tombstoned without a backup.

    The host-resident prefix below becomes unservable: backups and evictions are counted, and no
    load-back ever.
    """
    patch(cache.evictor, "_only_copy", lambda original, node, component: False)


@family.fault("P2", "S6", reference="sglang PRs 32016, 40748")
def evict_the_demand(cache: UnifiedCache) -> None:
    """Making room evicts what was asked for, not what is short.

    Every allocation costs as much cache as it is long, however much is free.
    """

    def make_room(original: Any, component: Component, wanted: int) -> None:
        pool = cache.pools[DEVICE, component]
        original(component, min(pool.capacity, wanted + pool.free_slots))

    patch(cache.evictor, "_make_room", make_room)


@family.fault("M2")
def backups_never_issued(cache: UnifiedCache) -> None:
    """The write policy is never carried out.

    The host tier stays empty and looks healthy.
    """
    patch(cache.backups, "back_up", lambda original, node: None)


@family.fault("M2")
def backup_a_hit_late(cache: UnifiedCache) -> None:
    """The policy's threshold is off by one hit.

    What should be kept on its second use is lost before its third.
    """

    def on_use(original: Any, node: Node) -> None:
        node.hits -= 1
        original(node)
        node.hits += 1

    patch(cache.backups, "on_use", on_use)


@family.fault("M2")
def host_never_asked(cache: UnifiedCache) -> None:
    """The match looks at the device only.

    Load-back never happens; every demoted prefix is computed again.
    """
    patch(cache.loadbacks, "_deepest_loadable", lambda original, path: _device_only(cache, path))


def _device_only(cache: UnifiedCache, path: list[Node]) -> Node:
    return cache.loadbacks.deepest_on_device(path)


@family.fault("M2")
def windows_never_inserted(cache: UnifiedCache) -> None:
    """An insert puts FULL into the tree and gives the window back.

    No prefix that was just computed can be served again.
    """

    def adopt(original: Any, node: Node, own: list[int], windowed: bool) -> None:
        original(node, own, False)
        if windowed:
            freed = cache.residency.map.unbind(own)
            cache.pools[DEVICE, SWA].release(freed, Owner.REQUEST)

    patch(cache.insertion, "_adopt", adopt)


@family.fault("M2")
def last_page_not_inserted(cache: UnifiedCache) -> None:
    """An insert stops a page early.

    The tail of every prompt is computed again by whoever repeats it.
    """

    def insert(original: Any, table: PageTable, key: Any, anchor: Node) -> Any:
        size, written = cache.config.page_size, table.written
        table.written = max(anchor.end, written - size)
        try:
            return original(table, key, anchor)
        finally:
            table.written = written

    patch(cache.insertion, "insert", insert)


@family.fault("M1", "C1")
def hit_of_all_tokens(cache: UnifiedCache) -> None:
    """The hit is not capped at n-1 tokens.

    A repeated prompt has nothing left to compute, so there is no logit to sample from.
    """

    def match(original: Any, key: Any) -> Any:
        return original(key.extended(b"\0\0\0\0")) if key.tokens else original(key)

    patch(cache, "match", match)


@family.fault("E1")
def landed_copies_not_published(cache: UnifiedCache) -> None:
    """The event of a backup that landed is not published.

    A router that follows the events never learns what the host holds.
    """

    def became_ready(original: Any, node: Node, tier: Tier, component: Component) -> None:
        if tier is DEVICE:
            original(node, tier, component)
        else:
            cache.residency._review(node, tier, component)

    patch(cache.residency, "_became_ready", became_ready)


@family.fault("E1")
def evicted_windows_still_published(cache: UnifiedCache) -> None:
    """The removal of a window is not published.

    A router sends requests to where their window no longer is.
    """

    def drop(original: Any, node: Node, tier: Tier, component: Component) -> None:
        if component is not SWA:
            original(node, tier, component)
            return
        cache.residency._take(node, (tier, component), Owner.NODE)

    patch(cache.residency, "drop", drop)


@family.fault("M1")
def window_judged_by_its_last_node(cache: UnifiedCache) -> None:
    """Whether the window is there is asked of the deepest node only.

    A window that spans several nodes may have a hole in the ones above.
    """
    if SWA in cache.config.components:
        patch(cache.rules[SWA], "walk", lambda original: _LastNode())


class _LastNode(Walk):
    def step(self, present: bool, start: int, end: int) -> bool:
        return present


@family.fault("M1")
def match_crosses_a_gap(cache: UnifiedCache) -> None:
    """The deepest node with everything on the device is taken, whatever is missing above it.

    Windows above it may be gone, and nobody looks.
    """

    def deepest(original: Any, path: list[Node]) -> Node:
        for node in reversed(path):
            if all(node.slots[DEVICE][c] is not None for c in cache.config.components):
                return node
        return cache.tree.root

    patch(cache.loadbacks, "deepest_on_device", deepest)


@family.fault("M2")
def filling_prefix_computed_again(cache: UnifiedCache) -> None:
    """A request that meets a load-back under way does not join it.

    It computes again what is about to arrive.
    """

    def deepest(original: Any, path: list[Node]) -> Node:
        filling = [any(copy is not None for copy in node.inbound[DEVICE]) for node in path]
        landed = filling.index(True) if True in filling else len(path)
        return original(path[:landed])  # type: ignore[no-any-return]

    patch(cache.loadbacks, "deepest_on_device", deepest)


@family.fault("M3", "M2", "M1")
def window_not_loaded_back(cache: UnifiedCache) -> None:
    """A load-back brings FULL and leaves the window for later.

    All components or none was promised; the prefix stays unservable and is computed again.
    """
    patch(
        cache.loadbacks,
        "_lacking",
        lambda original, anchor: [(n, c) for n, c in original(anchor) if c is FULL],
    )
