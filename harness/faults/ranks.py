"""Defects between tensor-parallel ranks: what is not agreed on, agreed on wrongly, or decided by
one rank alone. Each is put into a cache of several ranks, the last of which goes astray.
"""

from collections.abc import Callable
from typing import Any

from cache.config import Component, Tier
from cache.locks import Lock
from cache.ranks import RankedCache, Standing, standing
from cache.transfers import Copy, CopyState
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.faults.fault import Between, Family, patch

family = Family("ranks")
DEVICE, HOST = Tier.DEVICE, Tier.HOST


def fault(*oracles: str, reference: str = "") -> Callable[[Between], Between]:
    """A cache for one rank is left as it is."""

    def add(between: Between) -> Between:
        family.between(*oracles, reference=reference)(between)
        return between

    return add


def astray(cache: RankedCache) -> UnifiedCache:
    """The rank that goes its own way."""
    return cache.ranks[-1]


# -- agreements ---------------------------------------------------------------------------------


@fault("R2", reference="sglang issues 26923, 27489, 28430")
def skipped_agreement(cache: RankedCache) -> None:
    """A rank with nothing landed skips the agreement that the others wait in.

    They meet it in the next one, with what it offers there: one is answered with another's facts.
    """
    last = len(cache.ranks) - 1

    def offer(original: Any, rank: int, subject: str, value: int) -> None:
        if rank != last or value != Standing.UNDER_WAY:
            original(rank, subject, value)

    patch(cache.agreements, "offer", offer)


@fault("R2")
def agreements_in_another_order(cache: RankedCache) -> None:
    """One rank asks about load-backs when the others ask about backups.

    Its loop visits the directions the other way round; the numbers meet all the same, and a backup
    is taken for landed because a load-back was.
    """
    last = len(cache.ranks) - 1
    rank, names = astray(cache), {f"copies to the {t.name.lower()}": t for t in Tier}

    def offer(original: Any, number: int, subject: str, value: int) -> None:
        other = Tier(1 - names[subject]) if subject in names else None
        if number != last or other is None or not rank.transfers.queues[other]:
            original(number, subject, value)
            return
        swapped = next(name for name, tier in names.items() if tier is other)
        original(number, swapped, standing(rank, other))

    patch(cache.agreements, "offer", offer)


@fault("R2")
def one_agreement_too_many(cache: RankedCache) -> None:
    """A rank whose copy broke asks for an agreement that nobody else has heard of.

    The error path was written for one rank. From then on its offers are one behind.
    """
    last = len(cache.ranks) - 1

    def offer(original: Any, rank: int, subject: str, value: int) -> None:
        original(rank, subject, value)
        if rank == last and value == Standing.BROKEN:
            original(rank, "failed copies", value)

    patch(cache.agreements, "offer", offer)


@fault("R1", "D1", "D2", "crash")
def the_most_agreed_on(cache: RankedCache) -> None:
    """The reduction takes the greatest offer instead of the least.

    A copy that ran on one rank counts as landed on all, and is read where it is still under way.
    """
    patch(cache.agreements, "choose", lambda original, offers: max(offers))


@fault("R1", "D1", "D2", "crash")
def first_rank_decides(cache: RankedCache) -> None:
    """The first rank's offer is sent round instead of being compared with the others'.

    A broadcast is cheaper than a reduction, and as good whenever the first rank is the slowest.
    """
    patch(cache.agreements, "choose", lambda original, offers: offers[0])


@fault("R1", "D1", "D2", "crash")
def last_agreement_believed_again(cache: RankedCache) -> None:
    """The outcome of the agreement before is used: this one's is not waited for.

    It was to hide the latency. The copy that was asked about then is not the one asked about now.
    """
    before = [0]

    def choose(original: Any, offers: list[int]) -> int:
        last, before[0] = before[0], original(offers)
        return last

    patch(cache.agreements, "choose", choose)


# -- copies -------------------------------------------------------------------------------------


@fault("R1", "crash")
def unagreed_load_acknowledgements(cache: RankedCache) -> None:
    """Landed load-backs are consumed by each rank as they land, without an agreement.

    A request goes on with its prefix on one rank while it still waits for it on another.
    """
    _unagreed(cache, DEVICE)


@fault("R1", "crash")
def unagreed_backup_acknowledgements(cache: RankedCache) -> None:
    """Landed backups are consumed by each rank as they land, without an agreement.

    Their locks go at different times, so one rank may evict what another still holds.
    """
    _unagreed(cache, HOST)


@fault("R1", "S4", "D2", "crash")
def failure_kept_to_itself(cache: RankedCache) -> None:
    """A rank whose copy broke gives its slots back; those whose copy ran keep theirs.

    That the copy is over is agreed on, how it went is not.
    """
    patch(cache.transfers, "fail", lambda original, rank, target: None)


@fault("D1", "D2", "C1", "C2")
def failure_outvoted(cache: RankedCache) -> None:
    """A copy counts as landed because it ran on the other ranks, though it broke on one.

    That rank reads pages that never came: its share of the answer is noise.
    """
    rank = astray(cache)

    def offer(original: Any, number: int, subject: str, value: int) -> None:
        if value == Standing.BROKEN and number == len(cache.ranks) - 1:
            for tier in Tier:
                if subject.endswith(tier.name.lower()):
                    rank.transfers.queues[tier][0].state = CopyState.RAN
            value = Standing.RAN
        original(number, subject, value)

    patch(cache.agreements, "offer", offer)


@fault("R1")
def landed_copies_drained_at_once(cache: RankedCache) -> None:
    """Once a copy is agreed on, one rank acknowledges all that have run there with it.

    The agreement says that something has landed, and is taken for how much.
    """
    rank = astray(cache)

    def acknowledge(original: Any, copy: Copy) -> None:
        original(copy)
        while standing(rank, copy.target) == Standing.RAN:
            original(rank.transfers.queues[copy.target][0])

    patch(rank, "acknowledge", acknowledge)


# -- decisions ----------------------------------------------------------------------------------


@fault("R1", "P2", reference="sglang issues 31425, 33442")
def rank_local_capacity(cache: RankedCache) -> None:
    """Every rank makes room in, and loads back into, as many slots as it has itself.

    One has more memory left than another. A load-back that fits there does not fit here, and the
    ranks' batches differ by whole pages.
    """
    for rank in cache.ranks:
        for (tier, component), pool in rank.pools.items():
            own = rank.config.pools(component)[tier]
            if own != pool.capacity:
                pool.limit(own)
        patch(rank.evictor, "make_room", lambda original, demand: original(demand))


@fault("S6", "R1", "P2")
def own_recency(cache: RankedCache) -> None:
    """A rank counts as a use what only it sees: that a copy has landed.

    Its order of eviction drifts from the others', who evict something else.
    """
    rank = astray(cache)

    def acknowledge(original: Any, copy: Copy) -> None:
        nodes = [part.node for part in copy.parts]
        original(copy)
        if copy.state is CopyState.DONE:
            for node in nodes:
                rank.residency.touch(node, rank._reach(node), rank._tick())

    patch(rank, "acknowledge", acknowledge)


@fault("R1", "M2", "P2")
def backup_skipped_where_the_host_is_full(cache: RankedCache) -> None:
    """A rank whose host pool has no free slots skips a backup that the others make room for.

    Its host lacks a prefix that the others' have: what they load back it computes anew.
    """
    rank = astray(cache)

    def back_up(original: Any, node: Node) -> Copy | None:
        free = rank.pools[HOST, Component.FULL].free_slots
        pages = len(node.slots[DEVICE][Component.FULL] or ())
        return original(node) if free >= pages else None

    patch(rank.backups, "back_up", back_up)


@fault("R1", "crash", "P2", "M2")
def slots_of_copies_counted_as_free(cache: RankedCache) -> None:
    """A rank takes the slots of a copy that has run there for available before all have agreed.

    Its answer to whether a load-back fits is its own.
    """
    rank = astray(cache)

    def obtainable(original: Any, tier: Tier, component: Component) -> int:
        ran = [c for c in rank.transfers.queues[HOST] if c.state is CopyState.RAN]
        return int(original(tier, component)) + sum(copy.pages(component) for copy in ran)

    patch(rank.residency, "obtainable", obtainable)


@fault("R1", "L1", "L3", "crash")
def abort_heard_by_one_rank(cache: RankedCache) -> None:
    """A client's leaving is not sent round: the rank that it never reaches goes on.

    Its request's pages and lock stay, for nobody will ever end it there.
    """
    patch(astray(cache), "abort", lambda original, table: None)


@fault("L1", "R1", "D1", "S6")
def lock_released_when_run_here(cache: RankedCache) -> None:
    """A rank lets go of a backup's lock when its own bytes have moved, not when all ranks' have.

    It may evict what the others may not.
    """
    rank = astray(cache)

    def run(original: Any, copy: Copy) -> None:
        original(copy)
        if copy.target is HOST:
            rank.locks.release(copy.lock)

    def release(original: Any, lock: Lock) -> None:
        if lock.live:
            original(lock)

    patch(rank.transfers, "run", run)
    patch(rank.locks, "release", release)


def _unagreed(cache: RankedCache, target: Tier) -> None:
    """Copies towards `target` are acknowledged by each rank that has them, and by it alone."""

    def next_to_acknowledge(original: Any, tier: Tier) -> Copy | None:
        if tier is not target:
            return original(tier)  # type: ignore[no-any-return]
        queue = cache.transfers.queues[tier]
        landed = any(standing(rank, tier) for rank in cache.ranks)
        return queue[0] if queue and landed else None

    def acknowledge(original: Any, copy: Copy) -> None:
        if copy.target is not target:
            original(copy)
            return
        for rank in cache.ranks:
            if standing(rank, target):
                rank.acknowledge(rank.transfers.queues[target][0])
        cache.ranks_observer.stepped()

    patch(cache.transfers, "next_to_acknowledge", next_to_acknowledge)
    patch(cache, "acknowledge", acknowledge)
