"""Defects of locks, copies, ownership, the map and content."""

from cache.config import Component, Tier
from cache.pools import Owner
from cache.transfers import CopyState
from cache.unified import UnifiedCache
from tests.harness.oracles.defect import catalogue
from tests.harness.oracles.patching import patch, unchecked

DEVICE, HOST = Tier.DEVICE, Tier.HOST
FULL, SWA = Component.FULL, Component.SWA
DEFECTS, defect = catalogue()


# -- locks ---------------------------------------------------------------------------------------


@defect("L1", "L2")
def locks_count_what_is_resident(cache: UnifiedCache) -> None:
    """A tombstone is skipped when locking and, once revived, counted down when releasing."""

    def count(original, node, tier, component, step):
        if node.slots[tier][component] is not None and node.locks[tier][component] + step >= 0:
            original(node, tier, component, step)

    patch(cache.locks, "_count", count)


@defect("L2")
def release_walks_to_the_root(cache: UnifiedCache) -> None:
    def uncount(original, lock, component):
        reach = lock.reach[component]
        original(lock, component)
        for node in lock.anchor.ancestors():
            if node.end <= reach and node.locks[DEVICE][component] and DEVICE in lock.tiers:
                node.locks[DEVICE][component] -= 1

    patch(cache.locks, "_uncount", uncount)


@defect("L1")
def load_back_locks_no_host(cache: UnifiedCache) -> None:
    def acquire(original, anchor, reach, tiers, holder):
        return original(anchor, reach, (DEVICE,) if holder == "load-back" else tiers, holder)

    patch(cache.locks, "acquire", acquire)


@defect("L1")
def admission_locks_the_device_only(cache: UnifiedCache) -> None:
    def acquire(original, anchor, reach, tiers, holder):
        return original(anchor, reach, (DEVICE,) if "admission" in holder else tiers, holder)

    patch(cache.locks, "acquire", acquire)


@defect("L1")
def window_lock_is_a_page_short(cache: UnifiedCache) -> None:
    def reach(original, anchor):
        found = original(anchor)
        if len(found) > 1 and found[SWA] + cache.config.page_size < anchor.end:
            found[SWA] += cache.config.page_size
        return found

    patch(cache, "_reach", reach)


@defect("L1")
def window_lock_is_given_back_early(cache: UnifiedCache) -> None:
    def slide(original, table, tokens):
        original(table, tokens)
        if len(cache.config.components) > 1 and table.lock.reach[SWA] != -1:
            cache.locks.narrow(table.lock, SWA)

    patch(cache, "slide", slide)


@defect("L3")
def commit_overwrites_the_lock(cache: UnifiedCache) -> None:
    def commit(original, table, key):
        release, cache.locks.release = cache.locks.release, lambda lock: None
        try:
            return original(table, key)
        finally:
            cache.locks.release = release

    patch(cache, "commit", commit)


@defect("L1")
def acknowledgement_keeps_the_lock(cache: UnifiedCache) -> None:
    def acknowledge(original, copy):
        release, cache.locks.release = cache.locks.release, lambda lock: None
        try:
            return original(copy)
        finally:
            cache.locks.release = release

    patch(cache, "acknowledge", acknowledge)


@defect("L1")
def split_copies_no_locks(cache: UnifiedCache) -> None:
    def on_split(original, upper, lower, pages):
        for tier in Tier:
            upper.locks[tier][:] = [0] * len(upper.locks[tier])
        original(upper, lower, pages)

    patch(cache.tree, "on_split", on_split)


@defect("L1", "S6")
def victims_ignore_locks(cache: UnifiedCache) -> None:
    def may_go(original, node, tier, component):
        held, node.locks[tier][component] = node.locks[tier][component], 0
        try:
            return original(node, tier, component)
        finally:
            node.locks[tier][component] = held

    patch(cache.residency, "may_go", may_go)


# -- copies --------------------------------------------------------------------------------------


@defect("D2", "D1")
def failed_copy_is_marked_done(cache: UnifiedCache) -> None:
    def acknowledge(original, copy):
        if copy.state is CopyState.BROKEN:
            copy.state = CopyState.RAN
        original(copy)

    patch(cache, "acknowledge", acknowledge)


@defect("D2")
def doomed_copies_are_not_doomed(cache: UnifiedCache) -> None:
    patch(cache, "_doom_followers", lambda original, failed: None)


@defect("D1")
def split_copies_no_inbound(cache: UnifiedCache) -> None:
    def on_split(original, upper, lower, pages):
        upper.inbound[DEVICE][FULL] = upper.inbound[HOST][FULL] = None
        original(upper, lower, pages)

    patch(cache.tree, "on_split", on_split)


@defect("D2")
def copy_loses_the_upper_half_of_a_split(cache: UnifiedCache) -> None:
    def follow(original, upper, lower, pages):
        original(upper, lower, pages)
        for queue in cache.transfers.queues.values():
            for copy in queue:
                copy.parts = [part for part in copy.parts if part.node is not upper]

    patch(cache.transfers, "follow_split", follow)


@defect("M1", "M2")
def request_does_not_wait_for_copies(cache: UnifiedCache) -> None:
    patch(cache.loadbacks, "inbound", lambda original, anchor: [])


@defect("D1")
def backup_source_goes_before_it_is_copied(cache: UnifiedCache) -> None:
    def evict_leaf(original, node, short):
        if cache.evictor._wants_backup(node) and cache.backups.back_up(node) is not None:
            cache.evictor._let_go(node)
        else:
            original(node, short)

    patch(cache.evictor, "_evict_leaf", evict_leaf)


@defect("D1", "O1")
def one_host_slot_serves_two_pages(cache: UnifiedCache) -> None:
    if not cache.config.hierarchical:
        return

    def allocate(original, count, owner):
        slots = original(count, owner)
        return slots if len(slots) < 2 else [slots[0], *slots[:-1]]

    patch(cache.pools[HOST, FULL], "allocate", allocate)


@defect("D2")
def acknowledgements_overtake(cache: UnifiedCache) -> None:
    def next_to_acknowledge(original, target):
        queue = cache.transfers.queues[target]
        for copy in list(queue)[1:]:
            if copy.state is not CopyState.QUEUED:
                queue.remove(copy)
                queue.appendleft(copy)
                return copy
        return original(target)

    patch(cache.transfers, "next_to_acknowledge", next_to_acknowledge)


# -- ownership and the map -------------------------------------------------------------------------


@defect("O1")
def duplicates_are_not_freed(cache: UnifiedCache) -> None:
    def meet(original, table, node):
        pool = cache.pools[DEVICE, FULL]
        release, pool.release = pool.release, lambda slots, owner: None
        try:
            return original(table, node)
        finally:
            pool.release = release

    patch(cache.insertion, "_meet", meet)


@defect("O1", "M1", "M2", "E1", "D1")
def insert_frees_the_page_of_the_tree(cache: UnifiedCache) -> None:
    """The request's duplicate is kept and the tree's page goes, whoever points at it."""

    def meet(original, table, node):
        here, size = node.slots[DEVICE][FULL], cache.config.page_size
        if here is None or len(cache.config.components) > 1:
            return original(table, node)
        own = table.full[node.start // size : node.end // size]
        pool = cache.pools[DEVICE, FULL]
        node.slots[DEVICE][FULL] = None
        pool.release(here, Owner.NODE)
        pool.move(own, Owner.REQUEST, Owner.NODE)
        node.slots[DEVICE][FULL] = own
        return 0

    patch(cache.insertion, "_meet", meet)


@defect("O1")
def slot_is_freed_twice(cache: UnifiedCache) -> None:
    def abort(original, table):
        own = table.full[table.shared :]
        original(table)
        if own:
            with unchecked(cache.pools[DEVICE, FULL]):
                cache.pools[DEVICE, FULL].release(own[:1], Owner.REQUEST)

    patch(cache, "abort", abort)


@defect("O1")
def abort_leaks(cache: UnifiedCache) -> None:
    def abort(original, table):
        if len(table.full) > table.shared and len(cache.config.components) == 1:
            table.full.pop()
        original(table)

    patch(cache, "abort", abort)


@defect("O3")
def map_entry_outlives_its_window(cache: UnifiedCache) -> None:
    patch(cache.residency, "_unmap", lambda original, node, component: None)


@defect("O3", "O1", "C1")
def dead_window_is_inserted_live(cache: UnifiedCache) -> None:
    def adopt(original, table_or_node, own, windowed):
        return original(table_or_node, own, len(cache.config.components) > 1)

    patch(cache.insertion, "_adopt", adopt)


@defect("M1", "O3")
def slide_frees_a_page_too_many(cache: UnifiedCache) -> None:
    def slide(original, table, tokens):
        original(table, tokens)
        at = table.swa_from
        if len(cache.config.components) > 1 and table.shared <= at < len(table.full):
            freed = cache.residency.map.unbind(table.full[at : at + 1])
            cache.pools[DEVICE, SWA].release(freed, Owner.REQUEST)
            table.swa_from = at + 1

    patch(cache, "slide", slide)


# -- content -------------------------------------------------------------------------------------


@defect("C1", "M1", "S1")
def namespaces_are_not_told_apart(cache: UnifiedCache) -> None:
    def first_page(original, node, key, offset):
        return key.data[offset : offset + cache.tree.page_bytes]

    patch(cache.tree, "_first_page", first_page)
    patch(cache.tree, "_key_of", lambda original, node: node.edge[: cache.tree.page_bytes])


@defect("C1", "C2")
def compute_writes_a_page_late(cache: UnifiedCache) -> None:
    def write(original, table, prints, tokens):
        original(table, [0, *prints][: len(prints)], tokens)

    patch(cache, "write", write)


@defect("C1", "C2")
def copy_moves_the_wrong_page(cache: UnifiedCache) -> None:
    def run(original, copy):
        original(copy)
        part = copy.parts[0]
        cache.pools[copy.target, part.component].store.write(part.target[:1], [77])

    patch(cache.transfers, "run", run)
