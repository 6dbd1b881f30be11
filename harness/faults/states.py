"""Defects of recurrent states: of the wrong prefix, in the wrong hands, or lost."""

from collections.abc import Iterable
from typing import Any

from cache.components import Walk
from cache.config import Component, Tier
from cache.contract import Demand, Room
from cache.locks import NOT_HELD, Lock
from cache.pools import Owner
from cache.table import PageTable
from cache.transfers import Copy
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.faults.fault import Family, forgotten, patch

family = Family("states")
DEVICE, HOST = Tier.DEVICE, Tier.HOST
FULL, MAMBA = Component.FULL, Component.MAMBA


# -- known races -----------------------------------------------------------------------------------


@family.fault("L2", "L1", reference="sglang PR 27038")
def state_release_walks_to_the_root(cache: UnifiedCache) -> None:
    """A release of a state without its boundary walks to the root.

    A request copies the state of its hit, which evicts to make room. The release that follows
    counts down the states of all ancestors, which others hold; they can be evicted under them.
    """

    def uncount(original: Any, lock: Lock, component: Component) -> None:
        reach = lock.reach[component]
        original(lock, component)
        if component is MAMBA and reach != NOT_HELD:
            for node in lock.anchor.ancestors():
                if node.end <= reach and node.locks[DEVICE][MAMBA] > 0:
                    cache.locks._count(node, DEVICE, MAMBA, -1)

    if cache.states is not None:
        patch(cache.locks, "_uncount", uncount)


@family.fault("L1", "L2", "crash", reference="sglang PR 24972")
def receiptless_state_release(cache: UnifiedCache) -> None:
    """A lock takes a state only if it is there, a release gives back what is there by then.

    The admission lock finds the state on the host only and takes nothing on the device. The
    load-back revives it under that lock; the release takes the count of whoever holds it.
    """

    def count(original: Any, node: Node, tier: Tier, component: Component, step: int) -> None:
        resident = node.slots[tier][component] is not None
        elsewhere = component is not MAMBA or tier is not DEVICE
        if elsewhere or (resident and node.locks[tier][component] + step >= 0):
            original(node, tier, component, step)

    if cache.states is not None:
        patch(cache.locks, "_count", count)


@family.fault("crash", "P1", reference="sglang PR 36770")
def assert_instead_of_degrade(cache: UnifiedCache) -> None:
    """Every state is held, and a request that needs one asserts instead of waiting.

    The answer to the question for room is not looked at: there has always been a state.
    """

    def make_room(original: Any, demand: Demand) -> Room:
        room: Room = original(demand)
        return room._replace(short=(*room.short[:MAMBA], 0))

    if cache.states is not None:
        patch(cache, "make_room", make_room)


@family.fault("M2", reference="sglang PR 33713")
def only_state_dropped(cache: UnifiedCache) -> None:
    """The only copy of an inner node's state is dropped without a backup.

    Its FULL is on the host, and can never be loaded back again.
    """

    def only_copy(original: Any, node: Node, component: Component) -> bool:
        return component is not MAMBA and bool(original(node, component))

    if cache.states is not None:
        patch(cache.evictor, "_only_copy", only_copy)


# -- the copy that a request begins with -----------------------------------------------------------


@family.fault("C1", "O1", "D1")
def copy_on_write_skipped(cache: UnifiedCache) -> None:
    """A request computes with the tree's state instead of a copy of it.

    The state of a cached prefix becomes that of somebody's answer; the next hit goes on from there.
    """

    def open_state(original: Any, table: PageTable) -> None:
        lock = table.lock
        assert lock is not None
        node = lock.anchor
        if not node.ready(DEVICE, MAMBA):
            original(table)
            return
        (table.state,) = node.slots[DEVICE][MAMBA] or (-1,)
        table.forked = True
        cache.locks.narrow(lock, MAMBA)

    _patch_states(cache, "open", open_state)


@family.fault("C1", "C2")
def hit_without_a_copy_of_its_state(cache: UnifiedCache) -> None:
    """A request with a hit begins with an empty state, as one without.

    The pages of the prefix are there, and its recurrent layers have forgotten it.
    """

    def fork(original: Any, tables: Iterable[PageTable]) -> None:
        begun = [table for table in tables if table.state is not None and not table.forked]
        original(begun)
        for table in begun:
            if table.forked and table.written and table.state is not None:
                cache.pools[DEVICE, MAMBA].store.forget([table.state])

    _patch_states(cache, "fork", fork)


@family.fault("D1", "C2", "C1")
def copied_before_it_landed(cache: UnifiedCache) -> None:
    """A state is copied out of a slot that a load-back is still filling.

    The request goes on from whatever the slot held before.
    """

    def fork(original: Any, tables: Iterable[PageTable]) -> None:
        for table in tables:
            node = table.lock.anchor if table.lock is not None else cache.tree.root
            coming, node.inbound[DEVICE][MAMBA] = node.inbound[DEVICE][MAMBA], None
            original([table])
            node.inbound[DEVICE][MAMBA] = coming

    _patch_states(cache, "fork", fork)


@family.fault("C1")
def state_of_the_nearest_node(cache: UnifiedCache) -> None:
    """A request begins with the nearest state above the end of its hit, not with the one there.

    For as many tokens as lie between the two its recurrent layers have seen nothing.
    """

    def fork(original: Any, tables: Iterable[PageTable]) -> None:
        begun = [table for table in tables if table.state is not None and not table.forked]
        original(begun)
        pool = cache.pools[DEVICE, MAMBA]
        for table in begun:
            assert table.lock is not None
            above = list(table.lock.anchor.ancestors())[1:]
            there = (node.slots[DEVICE][MAMBA] for node in above if node.ready(DEVICE, MAMBA))
            nearest = next(there, None)
            if table.forked and table.state is not None and nearest is not None:
                pool.store.take(pool.store, nearest, [table.state])

    _patch_states(cache, "fork", fork)


@family.fault("L1")
def state_let_go_before_it_is_copied(cache: UnifiedCache) -> None:
    """A request's lock does not hold the state of its hit.

    Making room for the request's own state may evict the very one that is to be copied.
    """

    def take_lock(original: Any, table: PageTable, anchor: Node) -> Lock:
        forked, table.forked = table.forked, True
        try:
            return original(table, anchor)  # type: ignore[no-any-return]
        finally:
            table.forked = forked

    if cache.states is not None:
        patch(cache, "_take_lock", take_lock)


@family.fault("M1", "crash")
def state_not_waited_for(cache: UnifiedCache) -> None:
    """A request does not wait for the copy that brings the state of its hit.

    Its pages are there, and it begins before its state is.
    """

    def inbound(original: Any, anchor: Node) -> list[Copy]:
        only = anchor.inbound[DEVICE]
        return [
            copy
            for copy in original(anchor)
            if copy is not only[MAMBA] or any(copy is c for c in only[:MAMBA])
        ]

    if cache.states is not None:
        patch(cache.loadbacks, "inbound", inbound)


@family.fault("M1")
def hit_without_a_state(cache: UnifiedCache) -> None:
    """Whether a prefix has a state is not asked.

    The deepest node with all of its pages is served, and the request goes on from nothing.
    """
    if cache.states is not None:
        patch(cache.rules[MAMBA], "walk", lambda original: _Always())


class _Always(Walk):
    def step(self, present: bool, start: int, end: int) -> bool:
        return True


@family.fault("L1")
def every_state_of_the_path_held(cache: UnifiedCache) -> None:
    """A lock holds the states of all ancestors, of which it needs one.

    Of a few states most are held for nothing, and nobody can begin.
    """

    def reach(original: Any, anchor: Node) -> list[int]:
        found: list[int] = original(anchor)
        found[MAMBA] = 0
        return found

    if cache.states is not None:
        patch(cache, "_reach", reach)


# -- what a request keeps for the tree -------------------------------------------------------------


@family.fault("C1")
def wrong_boundary_kept(cache: UnifiedCache) -> None:
    """What is kept at a page boundary is the state at the end of the chunk.

    It knows some tokens that the prefix in the tree does not have.
    """

    def write(original: Any, table: PageTable, prints: Any, tokens: int) -> None:
        at = table.kept_at
        original(table, prints, tokens)
        if table.kept is not None and table.state is not None and table.kept_at != at:
            store = cache.pools[DEVICE, MAMBA].store
            store.take(store, [table.state], [table.kept])

    _patch_states(cache, "write", write)


@family.fault("C1")
def older_state_donated(cache: UnifiedCache) -> None:
    """The state kept at an earlier boundary is given to the node of a later one.

    Kept once and not again, it is taken for the state of whatever is committed.
    """

    def write(original: Any, table: PageTable, prints: Any, tokens: int) -> None:
        kept = table.kept
        if table.kept_at:
            table.kept = None
        original(table, prints, tokens)
        table.kept = kept

    def donate(original: Any, table: PageTable, node: Node) -> None:
        if table.kept_at:
            table.kept_at = node.end
        original(table, node)

    _patch_states(cache, "write", write)
    _patch_states(cache, "donate", donate)


@family.fault("O1", "crash")
def state_donated_twice(cache: UnifiedCache) -> None:
    """A request gives its kept state to the tree and frees it at its end as well.

    Whoever gets the slot next writes into the state of a cached prefix.
    """

    def donate(original: Any, table: PageTable, node: Node) -> None:
        kept, at = table.kept, table.kept_at
        original(table, node)
        table.kept, table.kept_at = kept, at

    _patch_states(cache, "donate", donate)


@family.fault("O1", "C1", "S3")
def state_freed_with_the_request(cache: UnifiedCache) -> None:
    """The end of a request frees the state of its last page, which is the tree's by then.

    The node goes on pointing at a slot that is free.
    """

    def finish(original: Any, table: PageTable, key: Any) -> Any:
        anchor = table.lock.anchor if table.lock is not None else None
        result = original(table, key)
        if anchor is not None and anchor.attached and anchor.ready(DEVICE, MAMBA):
            slots = anchor.slots[DEVICE][MAMBA] or []
            if not anchor.locks[DEVICE][MAMBA]:
                cache.pools[DEVICE, MAMBA].release(slots, Owner.NODE)
        return result

    if cache.states is not None:
        patch(cache, "finish", finish)


@family.fault("M2")
def state_lost_at_the_end(cache: UnifiedCache) -> None:
    """A request that ends frees its states and gives none to the tree.

    Chunks leave theirs; the last one, of the whole conversation, is computed again.
    """

    def finish(original: Any, table: PageTable, key: Any) -> Any:
        assert cache.states is not None
        with forgotten(cache.states, "donate"):
            return original(table, key)

    if cache.states is not None:
        patch(cache, "finish", finish)


@family.fault("O1", "P3")
def kept_state_leaks(cache: UnifiedCache) -> None:
    """A request that ends frees the state that it computed with and forgets the one that it kept.

    Every short answer costs a state until no request can begin.
    """

    def release(original: Any, table: PageTable) -> None:
        table.kept = None
        original(table)

    _patch_states(cache, "release", release)


@family.fault("O1", "P3")
def duplicate_state_not_freed(cache: UnifiedCache) -> None:
    """A state that the tree has already is neither used nor freed.

    Whoever repeats a prompt leaks a slot.
    """

    def donate(original: Any, table: PageTable, node: Node) -> None:
        with forgotten(cache.pools[DEVICE, MAMBA], "release"):
            original(table, node)

    _patch_states(cache, "donate", donate)


@family.fault("P2")
def states_never_kept(cache: UnifiedCache) -> None:
    """No slot is taken to keep a state at page boundaries.

    Only prompts that happen to end on a page leave a prefix that can be served.
    """
    _patch_states(cache, "keep", lambda original, table: None)


@family.fault("P2", "P1")
def kept_state_never_gives_way(cache: UnifiedCache) -> None:
    """Slots for boundaries stay with whoever has them, though another request cannot begin.

    A few long answers keep everybody else out for the sake of what may be cached.
    """
    _patch_states(cache, "spare", lambda original, tables: False)


# -- in the tree -----------------------------------------------------------------------------------


@family.fault("S3", "C1", "E1", "S6", "L1", "crash")
def split_keeps_the_state_above(cache: UnifiedCache) -> None:
    """A split leaves the state with the upper half.

    It is that of the lower half's end, and the upper one is shorter.
    """

    def split(original: Any, lower: Node, pages: int) -> Node:
        upper: Node = original(lower, pages)
        if lower.ready(DEVICE, MAMBA):
            upper.slots[DEVICE][MAMBA] = lower.slots[DEVICE][MAMBA]
            lower.slots[DEVICE][MAMBA] = None
        return upper

    if cache.states is not None:
        patch(cache.tree, "split", split)


@family.fault("O1", "C1", "S6", "S3")
def split_leaves_both_halves_a_state(cache: UnifiedCache) -> None:
    """A split gives both halves the state, as it does with pages.

    The same slot stands for two prefixes, and is freed twice.
    """

    def split(original: Any, lower: Node, pages: int) -> Node:
        upper: Node = original(lower, pages)
        if lower.ready(DEVICE, MAMBA):
            upper.slots[DEVICE][MAMBA] = lower.slots[DEVICE][MAMBA]
        return upper

    if cache.states is not None:
        patch(cache.tree, "split", split)


@family.fault("S6", "L1", "D1")
def host_state_freed_under_the_copy(cache: UnifiedCache) -> None:
    """The host's copy of a state may be evicted while a load-back reads it.

    The slot is given to another backup before the bytes have moved.
    """

    def may_go(original: Any, node: Node, tier: Tier, component: Component) -> bool:
        if tier is DEVICE or component is not MAMBA:
            return bool(original(node, tier, component))
        held, node.locks[HOST][MAMBA] = node.locks[HOST][MAMBA], 0
        try:
            return bool(original(node, tier, component))
        finally:
            node.locks[HOST][MAMBA] = held

    if cache.states is not None:
        patch(cache.residency, "may_go", may_go)


@family.fault("M2", "M3")
def state_not_loaded_back(cache: UnifiedCache) -> None:
    """A load-back brings the pages and leaves the state on the host.

    All components or none was promised; the prefix is computed again.
    """
    if cache.states is not None:
        patch(
            cache.loadbacks,
            "_lacking",
            lambda original, anchor: [(n, c) for n, c in original(anchor) if c is not MAMBA],
        )


@family.fault("M2")
def states_not_backed_up(cache: UnifiedCache) -> None:
    """A backup takes the pages and not the state.

    The host is full of prefixes none of which can be served.
    """

    def lacks(original: Any, node: Node, component: Component) -> bool:
        return component is not MAMBA and bool(original(node, component))

    if cache.states is not None:
        patch(cache.backups, "_lacks", lacks)


@family.fault("S6")
def every_state_of_the_path_refreshed(cache: UnifiedCache) -> None:
    """A hit counts as a use of the states of all ancestors.

    States that nobody has begun with for hours stay, and those that are used go.
    """

    def touch(original: Any, node: Node, needed_from: list[int], now: int) -> None:
        original(node, [*needed_from[:MAMBA], 0], now)

    if cache.states is not None:
        patch(cache.residency, "touch", touch)


@family.fault("E1")
def states_not_published(cache: UnifiedCache) -> None:
    """A state that enters the tree is not published.

    A router takes a prefix for one that cannot be served and sends its requests elsewhere.
    """

    def became_ready(original: Any, node: Node, tier: Tier, component: Component) -> None:
        if component is MAMBA:
            cache.residency._review(node, tier, component)
        else:
            original(node, tier, component)

    if cache.states is not None:
        patch(cache.residency, "_became_ready", became_ready)


def _patch_states(cache: UnifiedCache, name: str, replacement: Any) -> None:
    if cache.states is not None:
        patch(cache.states, name, replacement)
