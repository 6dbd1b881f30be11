"""Defects between host and storage: what is sent too early or not at all, believed too readily,
grafted where it cannot hang, or never let go of."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from cache.config import Component, Tier
from cache.keys import TOKEN_BYTES, Key
from cache.locks import Lock
from cache.storage.contract import Fetched, Status
from cache.storage.frame import HEADER_BYTES
from cache.storage_moves import Outcome, Persist, Prefetch, Reached, Wanted
from cache.storage_tier import StorageTier
from cache.strands import Strand
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.faults.fault import Family, patch

family = Family("storage", "storage")
HOST = Tier.HOST
FULL = Component.FULL
Tamper = Callable[[UnifiedCache, StorageTier], None]


def fault(*oracles: str, reference: str = "") -> Callable[[Tamper], Tamper]:
    """A cache without storage is left as it is."""

    def add(tamper: Tamper) -> Tamper:
        @wraps(tamper)
        def apply(cache: UnifiedCache) -> None:
            if cache.storage is not None:
                tamper(cache, cache.storage)

        family.fault(*oracles, reference=reference)(apply)
        return tamper

    return add


# -- on the way down --------------------------------------------------------------------------


@fault("M2", "D2", reference="sglang PR 26886")
def tail_before_head(cache: UnifiedCache, storage: StorageTier) -> None:
    """The newest pages are written to storage first: the tail of a prefix before its head.

    If the head is never written, nothing below it can ever be found.
    """

    def issue(original: Any, node: Node, lacking: list[Strand]) -> None:
        original(node, lacking)
        storage.persists.queue.rotate(1)

    patch(storage.persists, "_issue", issue)


@fault("M2", "D2", reference="sglang PR 16946")
def split_while_persisting(cache: UnifiedCache, storage: StorageTier) -> None:
    """A node is split while it is written to storage; only its lower half is persisted.

    The upper half, which is the head of it, is taken for stored and never sent again.
    """

    def follow(original: Any, upper: Node, lower: Node, pages: int) -> None:
        original(upper, lower, pages)
        for persist in storage.persists.queue:
            persist.sources = [s for s in persist.sources if s.node is not upper]

    patch(storage.persists, "follow_split", follow)


@fault("M2")
def pages_of_a_node_sent_in_reverse(cache: UnifiedCache, storage: StorageTier) -> None:
    """The pages of one node go to storage last page first.

    A backend that keeps prefixes whole refuses all of them; one that does not keeps useless ones.
    """
    patch(storage.persists, "_pages_of", lambda original, persist: original(persist)[::-1])


@fault("L1", "D1")
def persist_after_free(cache: UnifiedCache, storage: StorageTier) -> None:
    """The source of a persist is let go of when it is queued, not when it is over.

    Its host slots may hold another prefix by the time that storage reads them.
    """

    def issue(original: Any, node: Node, lacking: list[Strand]) -> None:
        original(node, lacking)
        cache.locks.release(storage.persists.queue[-1].lock)

    def release(original: Any, lock: Lock) -> None:
        if lock.live:
            original(lock)

    patch(cache.locks, "release", release)
    patch(storage.persists, "_issue", issue)


@fault("D1", "C2", "C1")
def persists_what_is_filling(cache: UnifiedCache, storage: StorageTier) -> None:
    """A node is sent to storage although its backup has not landed yet.

    Whatever its host slots held before is stored under its name.
    """

    def lacks(original: Any, node: Node, strand: Strand) -> bool:
        known = node.persisted | node.persisting
        there = node.slots[HOST][strand.component] is not None
        return not known >> strand.number & 1 and there

    patch(storage.persists, "_lacks", lacks)


@fault("M2", "D2")
def refusal_taken_for_stored(cache: UnifiedCache, storage: StorageTier) -> None:
    """Storage refuses a persist and it is acknowledged as if all of it were stored.

    The prefix is never sent again, and everything below it is sent in vain.
    """

    def acknowledge(original: Any, persist: Persist) -> None:
        persist.stored, persist.status = persist.pages, Status.OK
        original(persist)

    patch(storage.persists, "acknowledge", acknowledge)


@fault("M2")
def lost_head_not_noticed(cache: UnifiedCache, storage: StorageTier) -> None:
    """Storage says that a head is gone, and the cache goes on believing that it is there.

    Every tail is refused from then on.
    """

    def acknowledge(original: Any, persist: Persist) -> None:
        path = list(persist.lock.anchor.ancestors())
        before = [node.persisted for node in path]
        original(persist)
        for node, known in zip(path, before, strict=True):
            node.persisted |= known

    patch(storage.persists, "acknowledge", acknowledge)


@fault("M2")
def landed_backups_not_persisted(cache: UnifiedCache, storage: StorageTier) -> None:
    """What comes to the host is not sent to storage; only what is used again is.

    A server that ends before that leaves nothing behind.
    """

    def consider(original: Any, nodes: Iterable[Node]) -> None:
        original(node for node in nodes if node.hits > 2)

    patch(storage, "consider", consider)


@fault("M2")
def window_persisted_alone(cache: UnifiedCache, storage: StorageTier) -> None:
    """The window of a page goes to storage although its FULL page is not there.

    Backends refuse it, or keep a window that no prefix can use.
    """
    patch(storage.persists, "_has_head", lambda original, node, lacking: True)


# -- on the way up ----------------------------------------------------------------------------


@fault("L1", "S5", reference="sglang PR 31902")
def graft_under_lost_anchor(cache: UnifiedCache, storage: StorageTier) -> None:
    """A prefetch does not hold its anchor, and hangs its pages below it whatever has become of it.

    The host has a child whose parent it has lost, which can never be loaded back.
    """

    def acquire(original: Any, anchor: Node, reach: Any, tiers: Any, holder: str) -> Lock:
        held = [-1] * len(reach) if holder == "prefetch" else reach
        lock: Lock = original(anchor, held, tiers, holder)
        return lock

    patch(cache.locks, "acquire", acquire)
    patch(storage.grafting, "_can_hold", lambda original, node: True)


@fault("C2", "C1", "M1", reference="sglang PR 30057")
def partial_companion_prefetch(cache: UnifiedCache, storage: StorageTier) -> None:
    """FULL pages are published together with window pages that have not come.

    What is served of the window is whatever its host slots held.
    """

    def stop(original: Any, prefetch: Prefetch) -> int:
        return prefetch.landed(FULL) * cache.config.page_size

    def take(original: Any, prefetch: Prefetch, node: Node, component: Component) -> None:
        granted, prefetch.granted = prefetch.granted, len(prefetch.wanted)
        try:
            original(prefetch, node, component)
        finally:
            prefetch.granted = granted

    patch(storage.grafting, "_stop", stop)
    patch(storage.grafting, "_give", take)


@fault("M2", reference="sglang PR 38452")
def stub_hides_storage(cache: UnifiedCache, storage: StorageTier) -> None:
    """What has been in the tree once still counts as matched, so storage is not asked for it.

    Prefixes that the host has given up are computed again although storage has them.
    """
    seen: set[int] = set()

    def consider(original: Any, nodes: Iterable[Node]) -> None:
        known = list(nodes)
        for node in known:
            seen.update(cache.tree.prints(node))
        original(known)

    def ask(original: Any, key: Key, holder: str) -> Prefetch:
        prefetches, config = storage.prefetches, storage.prefetches._config
        if seen.issuperset(key.prints()):
            prefetches._config = replace(config, prefetch_threshold=key.tokens + 1)
        try:
            prefetch: Prefetch = original(key, holder)
        finally:
            prefetches._config = config
        return prefetch

    patch(storage, "consider", consider)
    patch(storage.prefetches, "ask", ask)


@fault("C1")
def checksum_ignored(cache: UnifiedCache, storage: StorageTier) -> None:
    """What storage gives is taken for the page that was asked for, unchecked.

    A torn page, or another's, is served as the prefix.
    """
    inner: Any = getattr(storage.backend, "inner", storage.backend)

    def get(original: Any, keys: Sequence[bytes]) -> Fetched:
        there: list[memoryview] = []
        for key in keys:
            if key not in inner.blobs:
                return Fetched(there, Status.ABSENT)
            there.append(memoryview(inner.blobs[key])[HEADER_BYTES:])
        return Fetched(there, Status.OK)

    patch(inner, "get", get)


@fault("C2", "C1", "M1")
def short_read_accepted(cache: UnifiedCache, storage: StorageTier) -> None:
    """A batch of which some pages did not come is taken for whole.

    The slots of those that are missing are published with whatever they held.
    """

    def run(original: Any, prefetch: Prefetch) -> None:
        upto = prefetch.arrived + prefetch.asked
        original(prefetch)
        if prefetch.wanted and not prefetch.stopped and prefetch.status is not Status.OK:
            prefetch.arrived = upto

    patch(storage.prefetches, "run", run)


@fault("C1")
def key_without_namespace(cache: UnifiedCache, storage: StorageTier) -> None:
    """Pages are looked up in storage by their tokens alone, whatever namespace they belong to.

    One adapter's requests are served the KV of another's.
    """
    bare: dict[int, Key] = {}

    def name(original: Any, prefetch: Prefetch, wanted: Wanted) -> bytes:
        key = bare.get(prefetch.number)
        if key is None:
            size = prefetch.key.page_bytes // TOKEN_BYTES
            key = bare[prefetch.number] = Key(prefetch.key.data, size)
        return storage.name_of(wanted.strand.number, key.prints()[wanted.page])

    patch(storage.prefetches, "_name", name)


@fault("C2", "C1", "M1")
def prefetch_publishes_before_landing(cache: UnifiedCache, storage: StorageTier) -> None:
    """Prefetched pages enter the tree as soon as they have slots, before a byte has come.

    Whoever matches them is served whatever the slots held.
    """

    def reserve(original: Any, prefetch: Prefetch) -> None:
        original(prefetch)
        prefetch.arrived = prefetch.granted = len(prefetch.wanted)
        if prefetch.wanted:
            storage.grafting.graft(prefetch)

    patch(storage.prefetches, "_reserve", reserve)


@fault("O1", "P3")
def cancel_leaks_host_slots(cache: UnifiedCache, storage: StorageTier) -> None:
    """The client leaves, and the host slots of its prefetch stay reserved.

    Every abort makes the host a little smaller, for ever.
    """

    def give_back(original: Any, prefetch: Prefetch, first: int, stop: int) -> None:
        if prefetch.outcome is not Outcome.CANCELLED:
            original(prefetch, first, stop)

    patch(storage.prefetches, "_give_back", give_back)


@fault("L3", "L1")
def cancel_keeps_the_anchor(cache: UnifiedCache, storage: StorageTier) -> None:
    """The client leaves, and the lock over the anchor of its prefetch is not handed back.

    What it covers is never evicted again, for nobody is left to release it.
    """

    def stop(original: Any, prefetch: Prefetch, outcome: Outcome, reached: Reached) -> None:
        kept = prefetch.lock
        if outcome is Outcome.CANCELLED:
            prefetch.lock = cache.locks.acquire(
                cache.tree.root, [-1] * len(kept.reach), kept.tiers, "prefetch"
            )
        original(prefetch, outcome, reached)
        prefetch.lock = kept

    patch(storage.prefetches, "_stop", stop)


@fault("D1", "O1")
def cancel_frees_what_is_being_written(cache: UnifiedCache, storage: StorageTier) -> None:
    """A prefetch that is stopped gives back the slots of the batch that is on its way.

    Storage then writes into slots that belong to somebody else.
    """

    def stop(original: Any, prefetch: Prefetch, outcome: Outcome, reached: Reached) -> None:
        storage.prefetches._give_back(prefetch, 0, len(prefetch.wanted))
        original(prefetch, outcome, reached)

    patch(storage.prefetches, "_stop", stop)


@fault("C2", "C1", "M1")
def timeout_counted_as_complete(cache: UnifiedCache, storage: StorageTier) -> None:
    """A prefetch that ran out of time is taken for one that is complete.

    The batch that was still on its way is published with the rest.
    """

    def conclude(original: Any, prefetch: Prefetch, reached: Reached) -> None:
        prefetch.arrived += prefetch.asked
        prefetch.asked = 0
        original(prefetch, reached._replace(arrived=reached.upto))

    patch(storage.prefetches, "conclude", conclude)


@fault("P1", "M2")
def wait_complete_does_not_wait(cache: UnifiedCache, storage: StorageTier) -> None:
    """Under `wait_complete` a request goes on with whatever has come.

    It computes what was on its way, and the rest of its prefetch is thrown away.
    """
    patch(storage.prefetches, "may_go_on", lambda original, prefetch, waited_s: True)


@fault("M2")
def threshold_counted_twice(cache: UnifiedCache, storage: StorageTier) -> None:
    """A prefetch has to bring twice what the threshold says, and a page.

    Short prefixes are computed again although storage has them.
    """

    def ask(original: Any, key: Key, holder: str) -> Prefetch:
        prefetches = storage.prefetches
        config, twice = prefetches._config, 2 * prefetches._config.prefetch_threshold
        prefetches._config = replace(config, prefetch_threshold=twice + cache.config.page_size + 1)
        try:
            prefetch: Prefetch = original(key, holder)
        finally:
            prefetches._config = config
        return prefetch

    patch(storage.prefetches, "ask", ask)


@fault("M1", "M2")
def window_not_fetched(cache: UnifiedCache, storage: StorageTier) -> None:
    """How far a prefetch goes is decided by FULL pages alone.

    Where the window is missing in storage, what was fetched cannot be loaded.
    """

    def absent(original: Any, prefetch: Prefetch) -> set[tuple[Component, int]]:
        found: set[tuple[Component, int]] = original(prefetch)
        return {(component, page) for component, page in found if component is FULL}

    patch(storage.prefetches, "_absent", absent)


@fault("D1", "S5")
def graft_below_a_failing_backup(cache: UnifiedCache, storage: StorageTier) -> None:
    """Prefetched pages are hung below a node whose backup is still on its way.

    When the backup fails, the host has a child without its parent.
    """
    patch(storage.grafting, "_is_filling", lambda original, node: False)
    patch(storage.grafting, "_can_hold", lambda original, node: True)


@fault("O1", "P3")
def landed_pages_never_given_back(cache: UnifiedCache, storage: StorageTier) -> None:
    """Pages that have landed and are of no use, as when the tree has them by then, are kept.

    They belong to nobody who would ever give them back.
    """

    def give_back(original: Any, prefetch: Prefetch, first: int, stop: int) -> None:
        original(prefetch, max(first, prefetch.arrived), stop)

    patch(storage.prefetches, "_give_back", give_back)
