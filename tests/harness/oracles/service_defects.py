"""Defects of structure, service, backups, room and events."""

from cache.config import Component, Tier
from cache.contract import LoadBack, LoadOutcome, Room
from cache.pools import Owner
from cache.unified import UnifiedCache
from tests.harness.oracles.defect import catalogue
from tests.harness.oracles.patching import patch

DEVICE, HOST = Tier.DEVICE, Tier.HOST
FULL, SWA = Component.FULL, Component.SWA
DEFECTS, defect = catalogue()


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


@defect("P2")
def the_window_is_never_let_go_of(cache: UnifiedCache) -> None:
    patch(cache, "slide", lambda original, table, tokens: None)


@defect("P2")
def the_window_lags_a_page_behind(cache: UnifiedCache) -> None:
    size = cache.config.page_size
    patch(cache, "slide", lambda original, table, tokens: original(table, max(0, tokens - size)))


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


@defect("M1", "M2")
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
    patch(cache.evictor, "_only_copy", lambda original, node, component: False)


@defect("M2")
def victims_are_not_written_back(cache: UnifiedCache) -> None:
    patch(cache.evictor, "_wants_backup", lambda original, node: False)


# -- room ----------------------------------------------------------------------------------------


@defect("P2", "S6")
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


@defect("P2")
def a_node_that_waited_for_its_backup_stays(cache: UnifiedCache) -> None:
    def conclude(original, node):
        node.leaving = ()
        cache.residency.left(node)

    patch(cache.evictor, "conclude", conclude)


@defect("P2")
def a_victim_that_is_backed_up_is_forgotten(cache: UnifiedCache) -> None:
    patch(cache.residency, "leave", lambda original, node, component: None)


# -- what the host gives up ------------------------------------------------------------------------


@defect("P2")
def the_host_gives_up_a_page_too_many(cache: UnifiedCache) -> None:
    hosts = cache.backups._hosts
    patch(hosts, "_make_room", lambda original, component, wanted: original(component, wanted + 1))


@defect("S6")
def the_host_gives_up_the_last_in_order(cache: UnifiedCache) -> None:
    victims = cache.residency.victims[HOST, FULL]

    def first(original):
        numbers = victims.numbers()
        nodes = [node for node in cache.tree.nodes() if node.number in numbers]
        return max(nodes, key=victims.rank, default=None)

    patch(victims, "first", first)


@defect("P2", "M2")
def the_host_gives_up_for_nothing(cache: UnifiedCache) -> None:
    """Room is made for a backup, which is then refused all the same."""
    hosts = cache.backups._hosts
    patch(hosts, "make_room", lambda original, pages: original(pages) and sum(pages) < 2)


@defect("P2")
def a_leaf_goes_whole_though_only_its_window_is_short(cache: UnifiedCache) -> None:
    def evict_small(original, node, component, short):
        if node in cache.residency.victims[DEVICE, FULL]:
            cache.evictor._let_go(node)
        else:
            original(node, component, short)

    patch(cache.evictor, "_evict_small", evict_small)


@defect("P2")
def dead_weight_is_not_swept(cache: UnifiedCache) -> None:
    patch(cache.evictor, "_sweep", lambda original, node: None)


@defect("M2")
def what_a_commit_adopted_is_miscounted(cache: UnifiedCache) -> None:
    def insert(original, table, key, anchor):
        result, node = original(table, key, anchor)
        if result.duplicates:
            moved = {"adopted": result.adopted + 1, "duplicates": result.duplicates - 1}
            result = result._replace(**moved)
        return result, node

    patch(cache.insertion, "insert", insert)


@defect("P2", "S6")
def who_is_leaving_is_not_remembered(cache: UnifiedCache) -> None:
    def leave(original, node, component):
        node.leaving = component

    patch(cache.residency, "leave", leave)


@defect("P2")
def a_window_stays_locked_that_was_left_behind(cache: UnifiedCache) -> None:
    patch(cache.locks, "narrow", lambda original, lock, component: None)
