"""Seeded defects: a few lines each, put into a built cache, of the kinds that caches break by.

Each names the oracles of which one must speak first; `crash` where an assertion may be quicker.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from cache.config import Component, Tier
from cache.contract import LoadBack, LoadOutcome, Room
from cache.pools import Owner
from cache.transfers import CopyState
from cache.unified import UnifiedCache
from tests.harness.oracles.patching import patch, unchecked

DEVICE, HOST = Tier.DEVICE, Tier.HOST
FULL, SWA = Component.FULL, Component.SWA


class Defect(NamedTuple):
    name: str
    tamper: Callable[[UnifiedCache], None]
    caught_by: tuple[str, ...]


DEFECTS: list[Defect] = []


def defect(*caught_by: str) -> Callable[[Callable[[UnifiedCache], None]], Any]:
    def add(tamper: Callable[[UnifiedCache], None]) -> Callable[[UnifiedCache], None]:
        DEFECTS.append(Defect(tamper.__name__, tamper, caught_by))
        return tamper

    return add


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


@defect("O1", "M1", "E1", "D1")
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


# -- structure -----------------------------------------------------------------------------------


@defect("S5", "D2")
def child_is_backed_up_without_its_parent(cache: UnifiedCache) -> None:
    def missing(original, node):
        return [piece for piece in original(node) if piece[0] is node]

    patch(cache.backups, "_missing", missing)


@defect("S4", "S5", "S6", "crash")
def inner_nodes_are_evicted(cache: UnifiedCache) -> None:
    def may_go(original, node, tier, component):
        kids, node.kids[tier] = node.kids[tier], 0
        try:
            return original(node, tier, component)
        finally:
            node.kids[tier] = kids

    patch(cache.residency, "may_go", may_go)


@defect("S6")
def most_recent_goes_first(cache: UnifiedCache) -> None:
    for victims in cache.residency.victims.values():
        patch(victims, "rank", lambda original, node: tuple(-x for x in original(node)))


@defect("S6", "P2")
def unlocked_nodes_are_not_listed_again(cache: UnifiedCache) -> None:
    def turn(original, node, tier, component, step):
        if step > 0:
            original(node, tier, component, step)

    patch(cache.residency, "turn", turn)
    patch(cache.locks, "_on_turn", turn)


# -- service -------------------------------------------------------------------------------------


@defect("M1", "crash")
def load_back_starts_at_the_deepest_full(cache: UnifiedCache) -> None:
    def deepest(original, path):
        there = [n for n in path if n.slots[DEVICE][FULL] or n.ready(HOST, FULL)]
        return there[-1] if there else cache.tree.root

    def lacking(original, anchor):
        return [(n, c) for n, c in original(anchor) if n.slots[HOST][c] is not None]

    patch(cache.loadbacks, "_deepest_loadable", deepest)
    patch(cache.loadbacks, "_lacking", lacking)


@defect("M1")
def window_is_not_asked_for(cache: UnifiedCache) -> None:
    def deepest(original, path):
        anchor = cache.tree.root
        for node in path:
            if node.slots[DEVICE][FULL] is None:
                break
            anchor = node
        return anchor

    patch(cache.loadbacks, "deepest_on_device", deepest)


@defect("M1")
def whole_prompts_are_matched(cache: UnifiedCache) -> None:
    def walk(original, key, limit, start=None):
        if start is None:  # as `match` calls it
            limit = key.pages * cache.config.page_size
        return original(key, limit, start)

    patch(cache.tree, "walk", walk)


@defect("M2")
def host_is_never_asked(cache: UnifiedCache) -> None:
    patch(cache.loadbacks, "_deepest_loadable", lambda o, p: cache.loadbacks.deepest_on_device(p))


@defect("M2", "M1")
def never_loads_back(cache: UnifiedCache) -> None:
    nothing = tuple(0 for _ in cache.config.components)
    answer = LoadBack(LoadOutcome.NOTHING, nothing, None, Room(nothing, nothing))
    patch(cache.loadbacks, "load", lambda original, match: answer)


@defect("M3", "M2")
def hit_is_counted_and_then_gone(cache: UnifiedCache) -> None:
    def load(original, match):
        result = original(match)
        if result.outcome is LoadOutcome.NO_ROOM:
            return result._replace(outcome=LoadOutcome.JOINED)
        return result

    patch(cache.loadbacks, "load", load)


@defect("M3")
def host_hits_are_counted_as_device_hits(cache: UnifiedCache) -> None:
    def share(original, table, node):
        original(table, node)
        table.device_tokens, table.host_tokens = table.hit_tokens, 0

    patch(cache, "_share", share)


@defect("M2")
def commit_stops_a_node_early(cache: UnifiedCache) -> None:
    def insert(original, table, key, anchor):
        size, written = cache.config.page_size, table.written
        table.written = max(anchor.end, written - size)
        try:
            return original(table, key, anchor)
        finally:
            table.written = written

    patch(cache.insertion, "insert", insert)


@defect("M2", "O1")
def windows_are_never_inserted(cache: UnifiedCache) -> None:
    def adopt(original, node, own, windowed):
        original(node, own, False)
        if windowed:
            freed = cache.residency.map.unbind(own)
            cache.pools[DEVICE, SWA].release(freed, Owner.REQUEST)

    patch(cache.insertion, "_adopt", adopt)


@defect("M2")
def inserts_are_always_blocked(cache: UnifiedCache) -> None:
    patch(cache.insertion, "_is_filling", lambda original, node: True)


# -- backups -------------------------------------------------------------------------------------


@defect("M2")
def backups_are_never_issued(cache: UnifiedCache) -> None:
    patch(cache.backups, "back_up", lambda original, node: None)


@defect("M2")
def backups_wait_for_a_hit_more(cache: UnifiedCache) -> None:
    def on_use(original, node):
        node.hits -= 1
        original(node)
        node.hits += 1

    patch(cache.backups, "on_use", on_use)


@defect("M2")
def backups_come_a_hit_early(cache: UnifiedCache) -> None:
    def on_use(original, node):
        if cache.config.hierarchical:
            cache.backups.back_up(node)

    patch(cache.backups, "on_use", on_use)


@defect("M2")
def only_window_is_dropped(cache: UnifiedCache) -> None:
    patch(cache.evictor, "_only_copy", lambda original, node: False)


@defect("M2")
def victims_are_not_written_back(cache: UnifiedCache) -> None:
    patch(cache.evictor, "_wants_backup", lambda original, node: False)


# -- room ----------------------------------------------------------------------------------------


@defect("P2")
def evicts_the_demand(cache: UnifiedCache) -> None:
    def make_room(original, component, wanted):
        pool = cache.pools[DEVICE, component]
        original(component, min(pool.capacity, wanted + pool.free_slots))

    patch(cache.evictor, "_make_room", make_room)


@defect("P2")
def trim_cuts_a_page_too_many(cache: UnifiedCache) -> None:
    patch(cache.residency, "trim", lambda original, node, pages: original(node, pages + 1))


@defect("P2")
def evicts_nothing(cache: UnifiedCache) -> None:
    patch(cache.evictor, "_make_room", lambda original, component, wanted: None)


@defect("P2")
def room_is_promised_that_never_comes(cache: UnifiedCache) -> None:
    def make_room(original, demand):
        room = original(demand)
        return room._replace(pending=tuple(9 for _ in room.pending)) if any(room.short) else room

    patch(cache.evictor, "make_room", make_room)


@defect("P2")
def budget_leaves_evictable_pages_out(cache: UnifiedCache) -> None:
    patch(cache, "available", lambda o, component: cache.pools[DEVICE, component].free_slots)


@defect("P3")
def flush_forgets_the_leaves(cache: UnifiedCache) -> None:
    def flush(original):
        return not (len(cache.locks) or len(cache.transfers) or cache.tables)

    patch(cache, "flush", flush)


# -- events --------------------------------------------------------------------------------------


@defect("E1")
def landed_copies_are_not_published(cache: UnifiedCache) -> None:
    def became_ready(original, node, tier, component):
        if tier is DEVICE:
            original(node, tier, component)

    patch(cache.residency, "_became_ready", became_ready)


@defect("E1")
def windows_are_published_twice(cache: UnifiedCache) -> None:
    def became_ready(original, node, tier, component):
        original(node, tier, component)
        if component is SWA:
            cache.observer.stored(node, tier, component)

    patch(cache.residency, "_became_ready", became_ready)


@defect("E1", "P2", "S6")
def evicted_windows_are_not_taken_back(cache: UnifiedCache) -> None:
    def drop(original, node, tier, component):
        if component is not SWA:
            original(node, tier, component)
            return
        cache.residency._take(node, (tier, component), Owner.NODE)

    patch(cache.residency, "drop", drop)
