"""Defects between tensor-parallel ranks and their storage: what one rank was answered, counted for
all, and what all agreed on, not heeded by one. Each is put into a cache of several ranks with
storage, the last of which goes astray.
"""

from collections.abc import Callable
from typing import Any

from cache.ranks import RankedCache
from cache.storage_moves import Move, Outcome, Persist, Prefetch, Reached
from cache.storage_tier import StorageTier
from harness.faults.fault import Between, Family, patch

family = Family("ranked-storage", "storage")
Tamper = Callable[[RankedCache, StorageTier], None]


def _with_storage(tamper: Tamper) -> Between:
    """Leaves a cache without storage as it is, under the name and with the words of `tamper`."""

    def between(cache: RankedCache) -> None:
        storage = cache.ranks[-1].storage
        if storage is not None:
            tamper(cache, storage)

    between.__name__, between.__doc__ = tamper.__name__, tamper.__doc__
    return between


def fault(*oracles: str, reference: str = "") -> Callable[[Tamper], Tamper]:
    """`tamper` is given the cache and the storage tier of the rank that goes its own way."""

    def add(tamper: Tamper) -> Tamper:
        family.between(*oracles, reference=reference)(_with_storage(tamper))
        return tamper

    return add


@fault("R1", "D1", "O1")
def own_count_grafted(cache: RankedCache, storage: StorageTier) -> None:
    """A rank puts into the tree what has come to it, not what has come to all.

    Its prefix is longer than the others' by what their storage has not sent yet.
    """

    def conclude(original: Any, prefetch: Prefetch, reached: Reached) -> None:
        original(prefetch, prefetch.reached)

    patch(storage.prefetches, "conclude", conclude)
    patch(storage.prefetches, "acknowledge", conclude)


@fault("R1", "crash")
def patience_of_one_rank(cache: RankedCache, storage: StorageTier) -> None:
    """A rank whose clock says that a request has waited long enough ends its prefetch there and
    then.

    The others still wait for what it no longer asks for.
    """

    def may_go_on(original: Any, prefetch: Prefetch, waited_s: float) -> bool:
        out: bool = original(prefetch, waited_s)
        if out and not prefetch.over and not prefetch.stopped:
            storage.conclude(prefetch)
        return out

    patch(storage, "may_go_on", may_go_on)


@fault("C1")
def key_without_rank(cache: RankedCache, storage: StorageTier) -> None:
    """The name of a page in storage says nothing of the rank whose part it is.

    Whoever stores it first has it: the other ranks are given a part that is not theirs.
    """
    lead = cache.ranks[0].storage
    assert lead is not None

    def name_of(original: Any, strand: int, print_: int) -> bytes:
        return lead.name_of(strand, print_)

    patch(storage, "name_of", name_of)
    for moves in (storage.persists, storage.prefetches):
        patch(moves, "_name_of", name_of)


@fault("R1", "crash")
def cancel_not_sent_round(cache: RankedCache, storage: StorageTier) -> None:
    """A client's leaving ends its prefetch on the ranks that hear of it, and on one it goes on.

    There its anchor stays locked and its slots stay taken until it is over.
    """
    patch(storage, "cancel", lambda original, prefetch, reached: None)


@fault("R1")
def kept_slots_given_back_early(cache: RankedCache, storage: StorageTier) -> None:
    """A rank whose own storage has answered gives the slots back that another's still writes into.

    It has room for a backup for which the others have none.
    """

    def stop(original: Any, prefetch: Prefetch, outcome: Outcome, reached: Reached) -> None:
        storage.prefetches._give_back(prefetch, 0, prefetch.arrived)
        original(prefetch, outcome, reached)

    patch(storage.prefetches, "_stop", stop)


@fault("R1", "M1")
def own_presence_believed(cache: RankedCache, storage: StorageTier) -> None:
    """A rank reserves slots for what storage has of its own part, whatever the others lack.

    It fetches pages that no request will ever use, or has no room where the others have.
    """

    def heed(original: Any, move: Move, agreed: tuple[int, ...]) -> None:
        if isinstance(move, Persist):
            original(move, agreed)

    patch(storage, "heed", heed)


@fault("R1", "M2")
def own_part_stored_is_enough(cache: RankedCache, storage: StorageTier) -> None:
    """A rank takes a page for stored once its own part is, though another rank's was refused.

    It never sends it again, and what the others send again nobody can use.
    """

    def heed(original: Any, move: Move, agreed: tuple[int, ...]) -> None:
        if isinstance(move, Prefetch):
            original(move, agreed)

    patch(storage, "heed", heed)


@fault("R1", "R2", "crash", "D2")
def replies_not_waited_for(cache: RankedCache, storage: StorageTier) -> None:
    """What storage has answered the first rank is taken note of on all.

    The others take what has not come for what is there.
    """
    lead = cache.ranks[0].storage
    assert lead is not None
    patch(cache.storage, "replied", lambda original: lead.replied())
