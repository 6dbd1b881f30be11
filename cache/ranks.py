"""Tensor-parallel ranks: a cache in replicas that decide alike.

Each rank has a tree, pools and copies of its own, and runs every operation of one scheduler. Who
decides from equal facts decides alike, so only facts that differ between ranks are agreed on: how
many slots a pool has, once; how the oldest copy of a direction stands, whenever a scheduler looks;
and which pools give slots, before whatever may want some. The least holds. Invariant (R1): after
every operation the ranks' trees agree.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum

from cache.agreed_room import BACKUPS, EVICTION, LOAD_BACK, PAGES, AgreedRoom
from cache.agreed_storage import AgreedStorage
from cache.agreement import Agreements, RanksObserver
from cache.config import CacheConfig, Component, PoolPages, Tier
from cache.contract import Cache, Commit, Demand, LoadBack, Match, Reading, Room
from cache.keys import Key
from cache.locks import Lock
from cache.observer import Observer
from cache.pools import SlotPool
from cache.table import PageTable
from cache.transfers import Copy, CopyState, Transfers
from cache.unified import UnifiedCache


class Standing(IntEnum):
    """How a rank's oldest copy of a direction stands. The least of all ranks' is everybody's."""

    UNDER_WAY = 0
    BROKEN = 1
    RAN = 2


class RankedMatch(Match):
    """The first rank's, which is everybody's; `others` are the same nodes in the others' trees."""

    others: tuple[Match, ...]


class RankedCache(Cache):
    """One cache for each rank, driven as one. Handles (locks, tables, copies) are the first rank's.

    Bytes move on each rank by itself: whoever runs copies runs those of every one of `ranks`."""

    def __init__(
        self,
        ranks: Sequence[UnifiedCache],
        observer: RanksObserver | None = None,
        *,
        agreements: Agreements | None = None,
    ) -> None:
        """`ranks` are fresh and alike in all but the sizes of their pools. Where others are
        elsewhere, these are one or more of all, and `agreements` are with those as well."""
        assert ranks
        self._ranks = tuple(ranks)
        self._lead = ranks[0]
        self.ranks_observer = observer or RanksObserver()
        self.agreements = agreements or Agreements(len(ranks), self.ranks_observer)
        self.config = self._agree_on_sizes()
        self.transfers = AgreedTransfers(self._ranks, self.agreements)
        self.room = AgreedRoom(self._ranks, self.agreements)
        tiers = [rank.storage for rank in ranks if rank.storage is not None]
        assert len(tiers) in (0, len(ranks))
        if tiers:
            self.storage = AgreedStorage(tiers, self.agreements, self.room, self._stepped)
        self.observer: Observer = _Slides(self)
        self._locks: dict[int, tuple[Lock | None, ...]] = {}
        self._tables: dict[int, tuple[PageTable, ...]] = {}
        self._stepped()

    @property
    def ranks(self) -> tuple[UnifiedCache, ...]:
        return self._ranks

    @property
    def agreed(self) -> int:
        return self.agreements.count

    @property
    def meets(self) -> bool:
        return self.agreements.meets

    def each(self, table: PageTable) -> Iterator[tuple[UnifiedCache, PageTable]]:
        """Every rank with its own table of the same request."""
        return zip(self._ranks, self._tables[table.number], strict=True)

    def begin_turn(self) -> None:
        self.room.begin_turn()

    # -- admission ---------------------------------------------------------------------------

    def match(self, key: Key) -> Match:
        lead, *others = [rank.match(key) for rank in self._ranks]
        match = RankedMatch(*lead)
        match.others = tuple(others)
        self._stepped()
        return match

    def lock(self, match: Match, holder: str) -> Lock | None:
        receipts = tuple(rank.lock(own, holder) for rank, own in self._each_match(match))
        lead = receipts[0]
        if lead is not None:
            self._locks[lead.number] = receipts
        self._stepped()
        return lead

    def load_back(self, match: Match, admission: Lock) -> LoadBack:
        if any(match.load_pages):
            self.room.agree(LOAD_BACK)
        results = [
            rank.load_back(own, receipt)
            for (rank, own), receipt in zip(
                self._each_match(match), self._receipts(admission), strict=True
            )
        ]
        self._stepped()
        return results[0]

    def settle(self, match: Match, admission: Lock, holder: str, priority: int = 0) -> PageTable:
        self._agree_on_backups()
        tables = tuple(
            rank.settle(own, receipt, holder, priority)
            for (rank, own), receipt in zip(
                self._each_match(match), self._receipts(admission), strict=True
            )
        )
        self._tables[tables[0].number] = tables
        self._stepped()
        return tables[0]

    def unlock(self, lock: Lock) -> None:
        receipts = self._locks.get(lock.number, (None,))
        if receipts[0] is not lock:
            self._lead.unlock(lock)  # which raises: nobody gave it out, or it is back
        del self._locks[lock.number]
        for rank, receipt in zip(self._ranks, receipts, strict=True):
            assert receipt is not None
            rank.unlock(receipt)
        self._stepped()

    def extend(self, table: PageTable, tokens: int) -> Room:
        if self._lead.wants_room(table, tokens):
            self.room.agree(PAGES)
        rooms = [rank.extend(own, tokens) for rank, own in self.each(table)]
        self._stepped()
        return rooms[0]

    # -- while it runs -----------------------------------------------------------------------

    def write(self, table: PageTable, prints: Sequence[int], tokens: int) -> None:
        for rank, own in self.each(table):
            rank.write(own, prints, tokens)

    def read(self, table: PageTable, tokens: int) -> Reading:
        readings = [rank.read(own, tokens) for rank, own in self.each(table)]
        return readings[0]

    def commit(self, table: PageTable, key: Key) -> Commit:
        self._agree_on_backups()
        results = [rank.commit(own, key) for rank, own in self.each(table)]
        self._stepped()
        return results[0]

    def slide(self, table: PageTable, tokens: int) -> None:
        for rank, own in self.each(table):
            rank.slide(own, tokens)
        self._stepped()

    # -- the end -----------------------------------------------------------------------------

    def finish(self, table: PageTable, key: Key) -> Commit:
        self._agree_on_backups()
        results = [rank.finish(own, key) for rank, own in self.each(table)]
        del self._tables[table.number]
        self._stepped()
        return results[0]

    def abort(self, table: PageTable) -> None:
        for rank, own in self.each(table):
            rank.abort(own)
        del self._tables[table.number]
        self._stepped()

    # -- room, copies, rest ------------------------------------------------------------------

    def make_room(self, demand: Demand) -> Room:
        self.room.agree(EVICTION)
        rooms = [rank.make_room(demand) for rank in self._ranks]
        self._stepped()
        return rooms[0]

    def acknowledge(self, copy: Copy) -> None:
        """Every rank acknowledges its own oldest copy, whose standing was agreed on when
        `transfers.next_to_acknowledge` gave this one out."""
        for rank in self._ranks:
            rank.acknowledge(rank.transfers.queues[copy.target][0])
        self._stepped()

    def flush(self) -> bool:
        done = [rank.flush() for rank in self._ranks]
        self._stepped()
        return all(done)

    def pool(self, component: Component, tier: int) -> SlotPool:
        return self._lead.pool(component, tier)

    def available(self, component: Component) -> int:
        return self._lead.available(component)

    # -- helpers -----------------------------------------------------------------------------

    def _agree_on_sizes(self) -> CacheConfig:
        """No pool is used beyond what the rank with the fewest slots has."""
        sizes = {}
        for tier, component in self._lead.pools:
            own = [rank.pool(component, tier).capacity for rank in self._ranks]
            least = self.agreements.agree(f"size of {tier.name} {component.name}".lower(), own)
            assert least is not None
            sizes[tier, component] = least
            for rank in self._ranks:
                rank.pool(component, tier).limit(least)
        pools = {
            component.name.lower(): PoolPages(
                sizes[Tier.DEVICE, component], sizes[Tier.HOST, component]
            )
            for component in self._lead.config.components
        }
        return replace(self._lead.config, **pools)  # type: ignore[arg-type]

    def _each_match(self, match: Match) -> Iterator[tuple[UnifiedCache, Match]]:
        assert isinstance(match, RankedMatch), "a match of this cache"
        return zip(self._ranks, (match, *match.others), strict=True)

    def _receipts(self, lock: Lock) -> Iterator[Lock]:
        for receipt in self._locks[lock.number]:
            assert receipt is not None, "the ranks' trees agree"
            yield receipt

    def _agree_on_backups(self) -> None:
        """A use may lead to backups, which want host slots."""
        if self._lead.backups.follow_use:
            self.room.agree(BACKUPS)

    def _stepped(self) -> None:
        self.ranks_observer.stepped()


class AgreedTransfers(Transfers):
    """The copies of all ranks, as their schedulers take note of them: the first rank's stand for
    the others'. Nothing is issued or run here."""

    def __init__(self, ranks: tuple[UnifiedCache, ...], agreements: Agreements) -> None:
        self._ranks = ranks
        self._agreements = agreements
        self.queues = ranks[0].transfers.queues

    def next_to_acknowledge(self, target: Tier) -> Copy | None:
        """The oldest copy, once it has run on every rank or broken on one. Then all have broken:
        pages that one rank lacks cannot be read by any. Asking is an agreement if there is one."""
        if not self.queues[target]:
            return None
        offers = [standing(rank, target) for rank in self._ranks]
        agreed = self._agreements.agree(f"copies to the {target.name.lower()}", offers)
        if not agreed:
            return None
        if agreed == Standing.BROKEN:
            for rank in self._ranks:
                self.fail(rank, target)
        return self.queues[target][0]

    def fail(self, rank: UnifiedCache, target: Tier) -> None:
        """The rank's oldest copy counts as broken, whatever its own bytes did."""
        copy = rank.transfers.queues[target][0]
        if copy.state is CopyState.RAN:
            rank.transfers.overrule(copy)


def standing(rank: UnifiedCache, target: Tier) -> Standing:
    """How the rank's oldest copy towards `target` stands."""
    queue = rank.transfers.queues[target]
    if not queue or queue[0].state is CopyState.QUEUED:
        return Standing.UNDER_WAY
    return Standing.RAN if queue[0].state is CopyState.RAN else Standing.BROKEN


class _Slides(Observer):
    """What the driver of a cache tells of its slides reaches the observer of each rank."""

    def __init__(self, cache: RankedCache) -> None:
        self._cache = cache

    def slid(self, table: PageTable, tokens: int) -> None:
        for rank, own in self._cache.each(table):
            rank.observer.slid(own, tokens)
