"""Defects of locks: receipts that take or give back what is not theirs."""

from typing import Any

from cache.config import Component, Tier, WritePolicy
from cache.locks import NOT_HELD, Lock, segment
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.faults.fault import Family, forgotten, patch

family = Family("locks")
DEVICE, HOST = Tier.DEVICE, Tier.HOST
FULL, SWA = Component.FULL, Component.SWA


@family.fault("L1", "L2", reference="sglang PR 24972")
def receiptless_release(cache: UnifiedCache) -> None:
    """A release looks at the tree as it is now, not at what the lock took.

    The admission lock finds a tombstone in the window and takes nothing there. A load-back under
    that very lock revives the window and takes its own lock. On leaving, the admission lock sees a
    live locked value and takes one count away: somebody else's.
    """

    def count(original: Any, node: Node, tier: Tier, component: Component, step: int) -> None:
        resident = node.slots[tier][component] is not None
        elsewhere = component is not SWA or tier is not DEVICE
        if elsewhere or (resident and node.locks[tier][component] + step >= 0):
            original(node, tier, component, step)

    patch(cache.locks, "_count", count)


@family.fault("L2", "L1", reference="sglang PR 27038")
def unbounded_release(cache: UnifiedCache) -> None:
    """A release without its window boundary walks to the root.

    It takes the counts that other requests hold on ancestors of the window; those windows can then
    be evicted under them.
    """

    def uncount(original: Any, lock: Lock, component: Component) -> None:
        reach = lock.reach[component]
        original(lock, component)
        if component is not SWA or reach == NOT_HELD:
            return
        for node in lock.anchor.ancestors():
            if node.end <= reach and node.locks[DEVICE][SWA] > 0:
                cache.locks._count(node, DEVICE, SWA, -1)

    patch(cache.locks, "_uncount", uncount)


@family.fault("L2", "L1", reference="sglang PR 36350")
def early_window_release_steals(cache: UnifiedCache) -> None:
    """The early release of a window counts down nodes that its lock had skipped.

    Locks skip tombstones and remember which; the release at the end honours that, the early one,
    when decode has left the window, does not.
    """
    skipped: dict[int, list[Node]] = {}

    def acquire(original: Any, anchor: Node, reach: list[int], *rest: Any) -> Lock:
        lock: Lock = original(anchor, reach, *rest)
        if DEVICE in lock.tiers and len(lock.reach) > SWA and lock.reach[SWA] != NOT_HELD:
            for node in segment(lock.anchor, lock.reach[SWA]):
                if node.slots[DEVICE][SWA] is None:
                    cache.locks._count(node, DEVICE, SWA, -1)
                    skipped.setdefault(lock.number, []).append(node)
        return lock

    def release(original: Any, lock: Lock) -> None:
        for node in skipped.pop(lock.number, []):
            if lock.reach[SWA] != NOT_HELD:
                cache.locks._count(node, DEVICE, SWA, +1)
        original(lock)

    patch(cache.locks, "acquire", acquire)
    patch(cache.locks, "release", release)


@family.fault("P1", "L3", reference="sglang PR 35869")
def undrained_acknowledgements(cache: UnifiedCache) -> None:
    """Backups are issued in a mode where nobody drains their acknowledgements.

    Their locks stay for ever, evictable falls to nothing, and in the end nothing is admitted.
    """

    def next_to_acknowledge(original: Any, target: Tier) -> Any:
        backs_up = cache.config.write_policy is WritePolicy.WRITE_BACK
        return None if target is HOST and backs_up else original(target)

    patch(cache.transfers, "next_to_acknowledge", next_to_acknowledge)


@family.fault("L1", "L3")
def lost_lock_on_overwrite(cache: UnifiedCache) -> None:
    """At a chunk boundary a request's lock is replaced before the old one is handed back.

    Every chunk leaves a receipt that nobody holds; what it covers is never evictable again.
    """

    def commit(original: Any, table: Any, key: Any) -> Any:
        with forgotten(cache.locks, "release"):
            return original(table, key)

    patch(cache, "commit", commit)


@family.fault("L3", "L1", reference="LMCache 2017, 2785, 3884")
def unbalanced_pins(cache: UnifiedCache) -> None:
    """An exit path forgets to unlock: a request that is aborted keeps its lock.

    Nothing fails at once; in the end nothing is evictable and the hit rate sinks to 0.
    """

    def abort(original: Any, table: Any) -> None:
        with forgotten(cache.locks, "release"):
            original(table)

    patch(cache, "abort", abort)


@family.fault("L1", "S6")
def split_forgets_locks(cache: UnifiedCache) -> None:
    """A split gives the upper half no lock counts.

    A holder that covers both halves is left with one; the other can be evicted under it, and the
    release finds nothing to give back.
    """

    def split(original: Any, lower: Node, pages: int) -> Node:
        upper: Node = original(lower, pages)
        for tier in Tier:
            upper.locks[tier][:] = [0] * len(upper.locks[tier])
        return upper

    patch(cache.tree, "split", split)


@family.fault("L1", "S6", "D1")
def victims_ignore_locks(cache: UnifiedCache) -> None:
    """Victims are chosen without looking at locks.

    What a running request reads is evicted while it reads.
    """

    def may_go(original: Any, node: Node, tier: Tier, component: Component) -> bool:
        held, node.locks[tier][component] = node.locks[tier][component], 0
        try:
            return bool(original(node, tier, component))
        finally:
            node.locks[tier][component] = held

    patch(cache.residency, "may_go", may_go)


@family.fault("L1")
def window_lock_a_page_short(cache: UnifiedCache) -> None:
    """A request's lock reaches one page less than its window.

    The oldest page that its next token reads is evictable under it.
    """

    def reach(original: Any, anchor: Node) -> list[int]:
        found: list[int] = original(anchor)
        held = len(found) > SWA and found[SWA] != NOT_HELD
        if held and found[SWA] + cache.config.page_size < anchor.end:
            found[SWA] += cache.config.page_size
        return found

    patch(cache, "_reach", reach)


@family.fault("L1", "L2", "crash")
def released_twice_on_abort(cache: UnifiedCache) -> None:
    """An abort gives the prefix back twice: on the abort path, and again when the request is freed.

    The second time the counts are somebody else's.
    """

    def abort(original: Any, table: Any) -> None:
        anchor = table.lock.anchor
        original(table)
        for node in segment(anchor, 0):
            if node.locks[DEVICE][FULL] > 0:
                cache.locks._count(node, DEVICE, FULL, -1)

    patch(cache, "abort", abort)


@family.fault("S6", "L1")
def last_host_copy_unprotected(cache: UnifiedCache) -> None:
    """Holding a node on the device does not hold its host copy when that is the only one.

    A lock over a demoted node protects nothing: host eviction removes the node itself.
    """

    def may_go(original: Any, node: Node, tier: Tier, component: Component) -> bool:
        if tier is DEVICE:
            return bool(original(node, tier, component))
        held, node.locks[DEVICE][component] = node.locks[DEVICE][component], 0
        try:
            return bool(original(node, tier, component))
        finally:
            node.locks[DEVICE][component] = held

    patch(cache.residency, "may_go", may_go)


@family.fault("L3", "L1")
def refused_backup_keeps_its_lock(cache: UnifiedCache) -> None:
    """A backup that finds no host room returns without handing back the lock it had taken.

    The fuller the host, the more of the device is pinned by copies that do not exist.
    """
    refused: list[bool] = []

    def make_room(original: Any, pages: list[int]) -> bool:
        enough = bool(original(pages))
        if not enough:
            refused.append(True)
        return enough

    def release(original: Any, lock: Lock) -> None:
        if refused and lock.holder == "backup":
            refused.clear()
        else:
            original(lock)

    patch(cache.backups._hosts, "make_room", make_room)
    patch(cache.locks, "release", release)


@family.fault("L1")
def window_let_go_too_early(cache: UnifiedCache) -> None:
    """The window's lock is given back with the first token behind the shared prefix.

    For a window's length of tokens decode still reads pages that it no longer holds.
    """

    def slide(original: Any, table: Any, tokens: int) -> None:
        original(table, tokens)
        lock, size = table.lock, cache.config.page_size
        if SWA not in cache.config.components or lock is None:
            return
        if lock.reach[SWA] != NOT_HELD and tokens > table.shared * size:
            cache.locks.narrow(lock, SWA)

    patch(cache, "slide", slide)


@family.fault("L1")
def lock_left_behind(cache: UnifiedCache) -> None:
    """A chunk's pages go into the tree and the request's lock stays where it was.

    What the request has just handed over is anybody's to evict while it runs on.
    """

    def commit(original: Any, table: Any, key: Any) -> Any:
        result, anchor = cache._insert(table, key, table.lock.anchor)
        cache._use(anchor, table.lock.anchor, table.priority)
        cache.observer.committed(table, result)
        return result

    patch(cache, "commit", commit)
