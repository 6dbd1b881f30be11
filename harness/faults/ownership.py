"""Defects of ownership: slots with two owners or none, and entries of the map that outlive them."""

from typing import Any

from cache.config import Component, Tier
from cache.locks import NOT_HELD
from cache.pools import Owner, SlotMap
from cache.table import PageTable
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.faults.fault import Family, forgotten, patch

family = Family("ownership")
DEVICE, HOST = Tier.DEVICE, Tier.HOST
FULL, SWA = Component.FULL, Component.SWA


def _windowed(cache: UnifiedCache) -> bool:
    return SWA in cache.config.components


@family.fault("M1", "O1", "C1", reference="sglang PR 29352")
def recovery_frees_locked_pages(cache: UnifiedCache) -> None:
    """An insert over a window tombstone adopts the new request's FULL slots and frees the old ones.

    Another request's rows still point at the old slots.
    """

    def meet(original: Any, table: PageTable, node: Node) -> int:
        size, here = cache.config.page_size, node.slots[DEVICE][FULL]
        start, stop = node.start // size, node.end // size
        tombstone = _windowed(cache) and node.slots[DEVICE][SWA] is None
        if here is None or not tombstone or start < table.swa_from:
            return int(original(table, node))
        own = table.full[start:stop]
        pool = cache.pools[DEVICE, FULL]
        pool.release(here, Owner.NODE)
        pool.move(own, Owner.REQUEST, Owner.NODE)
        node.slots[DEVICE][FULL] = own
        cache.residency.adopt(node, SWA, cache.residency.map.lookup(own), own)
        return 0

    patch(cache.insertion, "_meet", meet)


@family.fault("O1", "M1", "C1")
def insert_frees_the_page_of_the_tree(cache: UnifiedCache) -> None:
    """Of a duplicate the tree's page is freed and the request's kept.

    Whoever else holds that prefix points at slots that are free.
    """

    def meet(original: Any, table: PageTable, node: Node) -> int:
        here, size = node.slots[DEVICE][FULL], cache.config.page_size
        if here is None or _windowed(cache):
            return int(original(table, node))
        own = table.full[node.start // size : node.end // size]
        pool = cache.pools[DEVICE, FULL]
        pool.release(here, Owner.NODE)
        pool.move(own, Owner.REQUEST, Owner.NODE)
        node.slots[DEVICE][FULL] = own
        return 0

    patch(cache.insertion, "_meet", meet)


@family.fault("O1", "P3")
def duplicates_not_freed(cache: UnifiedCache) -> None:
    """A request's duplicate pages are replaced in its table and never given back.

    Every shared prefix leaks as many slots as it is long.
    """

    def meet(original: Any, table: PageTable, node: Node) -> int:
        pool = cache.pools[DEVICE, FULL]
        with forgotten(pool, "release"):
            return int(original(table, node))

    patch(cache.insertion, "_meet", meet)


@family.fault("M1", "O3", "O1", "C2", "crash", reference="sglang PRs 27770, 29350, 30845, 36909")
def out_of_window_inserted_live(cache: UnifiedCache) -> None:
    """The chunk insert does not say how much of the window has been given back already.

    Dead slots enter the tree as live ones.
    """

    def insert(original: Any, table: PageTable, key: Any, anchor: Node) -> Any:
        given_back, table.swa_from = table.swa_from, table.shared
        try:
            return original(table, key, anchor)
        finally:
            table.swa_from = max(given_back, table.swa_from)

    if _windowed(cache):
        patch(cache.insertion, "insert", insert)


@family.fault("O3", "crash", reference="sglang PRs 27586, 27789")
def stale_map_entry(cache: UnifiedCache) -> None:
    """The FULL-to-SWA entry of a tombstone survives.

    The slot is reused; freeing the tombstone frees somebody's live page.
    """
    patch(cache.residency, "_unmap", lambda original, node, component: None)


@family.fault("O1", "O2", reference="vLLM 42571")
def window_block_listed_twice(cache: UnifiedCache) -> None:
    """A page that leaves the window is queued twice and freed twice.

    The second free takes a slot that may be somebody else's by then.
    """

    def slide(original: Any, table: PageTable, tokens: int) -> None:
        before = table.swa_from
        slots = cache.residency.map.lookup(table.full) if _windowed(cache) else []
        original(table, tokens)
        gone = [s for s in slots[before : table.swa_from] if s != SlotMap.ABSENT]
        if gone:
            pool = cache.pools[DEVICE, SWA]
            pool._free += gone[:1]
            cache.observer.released(pool, gone[:1])

    patch(cache, "slide", slide)


@family.fault("O1", "P3")
def abort_leaks_a_page(cache: UnifiedCache) -> None:
    """An aborted request forgets the page it was filling.

    Every abort costs a slot until nothing can be admitted.
    """

    def abort(original: Any, table: PageTable) -> None:
        if len(table.full) > table.shared and not _windowed(cache):
            table.full.pop()
        original(table)

    patch(cache, "abort", abort)


@family.fault("P2")
def window_never_let_go_of(cache: UnifiedCache) -> None:
    """A running request keeps the window pages that it has left behind.

    Nothing breaks; long requests hold the window pool until others are retracted for it.
    """
    patch(cache, "slide", lambda original, table, tokens: None)


@family.fault("M1", "O3", "C1", "crash", "M2")
def slide_a_page_early(cache: UnifiedCache) -> None:
    """The window lets go of a page that the next token still reads.

    Off by one page: the oldest in-window page is freed with those before it.
    """

    def slide(original: Any, table: PageTable, tokens: int) -> None:
        original(table, tokens)
        at = table.swa_from
        last = table.written // cache.config.page_size
        if _windowed(cache) and table.shared <= at < last:
            freed = cache.residency.map.unbind(table.full[at : at + 1])
            cache.pools[DEVICE, SWA].release(freed, Owner.REQUEST)
            table.swa_from = at + 1

    patch(cache, "slide", slide)


@family.fault("C1", "M1", "S1")
def namespaces_not_told_apart(cache: UnifiedCache) -> None:
    """The tree's first level ignores the namespace.

    Two tenants with the same tokens share KV that was computed with different adapters.
    """
    patch(
        cache.tree,
        "_first_page",
        lambda original, node, key, offset: key.data[offset : offset + cache.tree.page_bytes],
    )
    patch(cache.tree, "_key_of", lambda original, node: node.edge[: cache.tree.page_bytes])


@family.fault("M1", "O1", "C1", "C2")
def table_keeps_the_duplicate(cache: UnifiedCache) -> None:
    """A duplicate is freed, and the page table goes on pointing at it.

    The request reads its prefix from slots that belong to whoever asks next.
    """

    def meet(original: Any, table: PageTable, node: Node) -> int:
        size = cache.config.page_size
        start, stop = node.start // size, node.end // size
        own = table.full[start:stop]
        took = int(original(table, node))
        if not took:
            table.full[start:stop] = own
        return took

    patch(cache.insertion, "_meet", meet)


@family.fault("O3")
def window_adopted_without_its_entries(cache: UnifiedCache) -> None:
    """A tombstone takes the request's window slots and the map is not told.

    The tree's FULL slots name no window slot; kernels read nothing where a page is.
    """

    def adopt(
        original: Any, node: Node, component: Component, slots: list[int], full: list[int]
    ) -> None:
        table = cache.residency.map
        with forgotten(table, "bind"):
            original(node, component, slots, full)

    patch(cache.residency, "adopt", adopt)


@family.fault("L1", "M1")
def window_let_go_before_it_is_read(cache: UnifiedCache) -> None:
    """Room for a chunk is made by letting go of what is behind the window at the chunk's end.

    The chunk's first tokens still read it.
    """

    def extend(original: Any, table: PageTable, tokens: int) -> Any:
        room = original(table, tokens)
        lock, size = table.lock, cache.config.page_size
        if not room.enough or not _windowed(cache) or lock is None:
            return room
        start = min(cache.rules[SWA].needed_from(tokens), table.written) // size
        if start >= table.shared and lock.reach[SWA] != NOT_HELD:
            cache.locks.narrow(lock, SWA)
        return room

    patch(cache, "extend", extend)


@family.fault("C1", "D1")
def shared_page_written(cache: UnifiedCache) -> None:
    """Compute writes the last shared page once more, together with its own first one.

    The slot mapping of a chunk starts a page early; others read the page meanwhile.
    """

    def write(original: Any, table: PageTable, prints: Any, tokens: int) -> None:
        if table.shared and table.written == table.shared * cache.config.page_size:
            last = table.shared - 1
            cache.pools[DEVICE, FULL].store.write([table.full[last]], [prints[last] ^ 1])
        original(table, prints, tokens)

    patch(cache, "write", write)


@family.fault("O1")
def refused_extension_keeps_a_page(cache: UnifiedCache) -> None:
    """An extension that finds too little room keeps what it got.

    All or nothing was promised; the caller thinks it has nothing.
    """

    def extend(original: Any, table: PageTable, tokens: int) -> Any:
        room = original(table, tokens)
        if not room.enough and cache.pools[DEVICE, FULL].free_slots:
            cache.pools[DEVICE, FULL].allocate(1, Owner.REQUEST)
        return room

    patch(cache, "extend", extend)
