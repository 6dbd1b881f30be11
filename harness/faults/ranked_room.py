"""Defects between tensor-parallel ranks that want slots: a pool that one of them has shut, and
another one that gives slots all the same, or the other way round. Each is put into a cache of
several ranks, the last of which goes astray.
"""

from collections.abc import Callable, Sequence
from typing import Any

from cache.agreed_room import ROOMS
from cache.config import FULL, MAMBA, Component, Tier
from cache.contract import Demand, Room
from cache.ranks import RankedCache
from cache.residency import Place
from cache.unified import UnifiedCache
from harness.faults.fault import Between, Family, patch

family = Family("ranked-room", "rooms")
DEVICE, HOST = Tier.DEVICE, Tier.HOST
Which = Callable[[Place], bool]


def fault(
    *oracles: str, reference: str = "", needs: tuple[str, ...] = ()
) -> Callable[[Between], Between]:
    """A cache for one rank is left as it is."""

    def add(between: Between) -> Between:
        family.between(*oracles, reference=reference, needs=needs)(between)
        return between

    return add


def astray(cache: RankedCache) -> UnifiedCache:
    """The rank that goes its own way."""
    return cache.ranks[-1]


# -- not agreed on --------------------------------------------------------------------------------


@fault("R1")
def backups_by_the_own_host(cache: RankedCache) -> None:
    """A rank backs up what its own host has slots for, whatever another one's refuses.

    Its host has a prefix that the others' lack: what it would load back they compute anew.
    """
    _own(astray(cache), lambda place: place[0] is HOST)


@fault("R1", reference="sglang issues 31425, 33442")
def load_backs_by_the_own_device(cache: RankedCache) -> None:
    """A rank loads back what its own device has slots for, whatever another one's refuses.

    The ranks' batches differ by the pages of the prefix that only some have.
    """
    rank = astray(cache)
    _by_itself(rank, rank, "load_back")


@fault("R1")
def pages_by_the_own_device(cache: RankedCache) -> None:
    """A rank takes pages for a chunk or a token from its own device, whatever another one refuses.

    It runs the chunk that the others put off.
    """
    rank = astray(cache)
    _by_itself(rank, rank, "extend")


@fault("R1")
def states_by_the_own_device(cache: RankedCache) -> None:
    """A rank takes a slot for a copy of a state from its own pool, whatever another one refuses.

    Its request begins, or keeps the state at a boundary, where the others' cannot.
    """
    _own(astray(cache), lambda place: place == (DEVICE, MAMBA))


@fault("R1")
def room_agreed_on_for_full_alone(cache: RankedCache) -> None:
    """The ranks agree on slots for full attention; windows and states are taken for as many.

    Whether there are some is left to each rank.
    """
    _own(astray(cache), lambda place: place[1] is not FULL)


@fault("R1", needs=("storage",))
def refusal_of_another_host_not_heeded(cache: RankedCache) -> None:
    """A prefetch for which another rank's host has no slots goes on where there are some.

    All components or none, but not all ranks or none.
    """
    rank = astray(cache)
    if rank.storage is not None:
        _by_itself(rank, rank.storage.prefetches, "_reserve")


# -- agreed on wrongly ----------------------------------------------------------------------------


@fault("R1")
def refusal_kept_to_itself(cache: RankedCache) -> None:
    """A rank that has shut a pool says that it is open, and refuses when it is asked for a slot.

    The error path gives up the request here. Nobody tells the others, who go on with it.
    """
    rank = astray(cache)

    def heed_open(original: Any, agreed: Sequence[int]) -> None:
        original(tuple(map(min, agreed, own())))

    own = rank.open_pools
    patch(rank, "open_pools", lambda original: (1,) * len(rank.pools))
    patch(rank, "heed_open", heed_open)


@fault("R1")
def room_agreed_on_once(cache: RankedCache) -> None:
    """A rank heeds the first agreement on room for good.

    Memory was counted when the server came up. That it may be wanted by others later was not
    thought of.
    """
    heard: list[Sequence[int]] = []

    def heed_open(original: Any, agreed: Sequence[int]) -> None:
        heard.append(agreed)
        original(heard[0])

    patch(astray(cache), "heed_open", heed_open)


@fault("R2")
def no_agreement_with_slots_to_spare(cache: RankedCache) -> None:
    """A rank that has free slots in every pool does not take part in the agreement on room.

    It has nothing to refuse, and saves the time. The others wait for it in the next one.
    """
    rank, last = astray(cache), len(cache.ranks) - 1

    def offer(original: Any, number: int, subject: str, value: Any) -> None:
        spare = all(pool.free_slots for pool in rank.pools.values() if pool.capacity)
        if number != last or subject not in ROOMS or not spare:
            original(number, subject, value)

    patch(cache.agreements, "offer", offer)


@fault("R1")
def room_made_before_it_is_refused(cache: RankedCache) -> None:
    """A rank evicts for the slots that it wants, and hears only then that another one refuses.

    The slots are not taken, but what they held is gone here, and there everywhere else.
    """
    rank = astray(cache)

    def make_room(original: Any, demand: Demand) -> Room:
        out: Room = original(demand)
        if any(rank.residency.refused(DEVICE, demand)):
            for component in rank.config.components:
                rank.evictor._make_room(Component(component), demand[component])
        return out

    patch(rank.evictor, "make_room", make_room)


def _own(rank: UnifiedCache, own: Which) -> None:
    """Whether these pools give slots `rank` takes for its own affair."""

    def heed_open(original: Any, agreed: Sequence[int]) -> None:
        here = zip(rank.pools, agreed, rank.open_pools(), strict=True)
        original(tuple(mine if own(place) else all_ for place, all_, mine in here))

    patch(rank, "heed_open", heed_open)


def _by_itself(rank: UnifiedCache, owner: object, method: str) -> None:
    """From the call of a method on, up to the next agreement, `rank` decides by its own pools."""

    def call(original: Any, *args: Any) -> Any:
        rank.heed_open(rank.open_pools())
        return original(*args)

    patch(owner, method, call)
