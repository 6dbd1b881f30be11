"""Defects of recurrent states in storage: sent without their pages, fetched for another boundary,
put where they are not true."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from cache.config import FULL, MAMBA
from cache.storage.contract import Page
from cache.storage_moves import Persist, Prefetch, Wanted
from cache.storage_tier import StorageTier
from cache.strands import Strand
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.faults.fault import Family, patch

family = Family("storage", "storage")
Tamper = Callable[[UnifiedCache, StorageTier], None]


def fault(*oracles: str, reference: str = "") -> Callable[[Tamper], Tamper]:
    """A cache without storage, or without recurrent states, is left as it is."""

    def add(tamper: Tamper) -> Tamper:
        @wraps(tamper)
        def apply(cache: UnifiedCache) -> None:
            if cache.storage is not None and MAMBA in cache.config.components:
                tamper(cache, cache.storage)

        family.fault(*oracles, reference=reference)(apply)
        return tamper

    return add


@fault("M2")
def state_persisted_without_its_pages(cache: UnifiedCache, storage: StorageTier) -> None:
    """Of a node that has a state only the state goes to storage.

    It is the smallest part, and of no use without the pages before it.
    """

    def pages_of(original: Any, persist: Persist) -> list[Page]:
        pages: list[Page] = original(persist)
        stateful = any(source.component is MAMBA for source in persist.sources)
        return pages[-1:] if stateful else pages

    patch(storage.persists, "_pages_of", pages_of)


@fault("M2")
def states_never_persisted(cache: UnifiedCache, storage: StorageTier) -> None:
    """Pages go to storage, and their states stay behind.

    What is stored serves nobody: there is no boundary to go on from.
    """

    def lacks(original: Any, node: Node, strand: Strand) -> bool:
        return strand.component is not MAMBA and bool(original(node, strand))

    patch(storage.persists, "_lacks", lacks)


@fault("C1", "C2")
def state_fetched_for_another_boundary(cache: UnifiedCache, storage: StorageTier) -> None:
    """The state that is fetched with a run is that of the boundary before its end.

    Whoever goes on from it computes the last page's tokens into a state that lacks them.
    """

    def name(original: Any, prefetch: Prefetch, wanted: Wanted) -> bytes:
        if wanted.component is MAMBA and prefetch.wanted and wanted.page:
            wanted = wanted._replace(page=wanted.page - 1)
        found: bytes = original(prefetch, wanted)
        return found

    patch(storage.prefetches, "_name", name)


@fault("M1")
def run_grafted_without_its_state(cache: UnifiedCache, storage: StorageTier) -> None:
    """The pages of a run are put into the tree although its state has not come.

    A leaf that nobody can go on from takes host slots, and hides what storage has.
    """

    def stop(original: Any, prefetch: Prefetch) -> int:
        page_size = cache.config.page_size
        return prefetch.landed(FULL) * page_size

    patch(storage.grafting, "_stop", stop)


@fault("M2")
def upper_half_taken_for_stored(cache: UnifiedCache, storage: StorageTier) -> None:
    """A node whose state is in storage is split, and both halves are believed to have theirs there.

    The state that the upper half is given later is never sent.
    """

    def follow(original: Any, upper: Node, lower: Node, pages: int) -> None:
        original(upper, lower, pages)
        upper.persisted = lower.persisted

    patch(storage, "follow_split", follow)
