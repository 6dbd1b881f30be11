"""R1: after every operation the ranks have decided alike, and at rest their trees are equal.
R2: they take part in the same agreements in the same order, and the least offer is agreed on.

Each rank's cache tells its journal what it decides; at the end of an operation the journals are
compared and begun anew, so the cost is that of what was decided. Slot numbers and the times at
which bytes move are a rank's own and no part of it.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import zip_longest

from cache.agreement import Offer, RanksObserver
from cache.config import Tier
from cache.contract import Commit, Demand, LoadBack, Match, Room
from cache.locks import Lock
from cache.observer import Observer
from cache.storage_moves import Persist, Prefetch
from cache.table import PageTable
from cache.transfers import Copy
from cache.tree import Node
from cache.unified import UnifiedCache

Sink = Callable[[str, str, object, object], None]  # oracle, signature, expected, seen
NOTHING = ("no agreement", 0)
OnOffers = Callable[[str, list[Offer]], None]
Entry = tuple[Hashable, ...]  # the event, and what was decided


class Ranks(RanksObserver):
    """Give it to a `RankedCache` as its observer, and `journals[n]` to rank n's."""

    name = "ranks"

    def __init__(self, ranks: int, report: Sink, *, on_offers: OnOffers | None = None) -> None:
        """`on_offers(subject, offers)` is told of every agreement."""
        self.journals = tuple(Journal() for _ in range(ranks))
        self._offers: list[list[tuple[str, Offer]]] = [[] for _ in range(ranks)]
        self._concluded = 0  # of the offers noted down
        self._report = report
        self._on_offers = on_offers

    def offered(self, rank: int, subject: str, value: Offer) -> None:
        if rank == 0 and any(len(o) != len(self._offers[0]) for o in self._offers):
            self._compare_agreements()  # the agreement before is over, and somebody was missing
        self._offers[rank].append((subject, value))

    def agreed(self, value: Offer) -> None:
        met = [offers[self._concluded] for offers in self._offers]
        self._concluded += 1
        if self._on_offers is not None:
            self._on_offers(met[0][0], [offer for _, offer in met])
        least = _least([offer for _, offer in met])
        if value != least:
            self._report("R1", "agreed", f"the least offer, {least}", f"{value} of {met}")

    def stepped(self) -> None:
        """The operation is over: so are its agreements, and all ranks have decided."""
        if any(self._offers):
            self._compare_agreements()
        first = self.journals[0].entries
        if any(journal.entries != first for journal in self.journals[1:]):
            self._tell_apart()
        for journal in self.journals:
            journal.entries.clear()

    def at_rest(self, caches: Sequence[UnifiedCache]) -> None:
        """Nothing is in flight: the trees are compared whole."""
        first = list(content_of(caches[0]))
        for rank, cache in enumerate(caches[1:], 1):
            for mine, other in zip_longest(first, content_of(cache)):
                if mine != other:
                    self._report("R1", "tree", mine, f"{other} on rank {rank}")
                    break

    def _compare_agreements(self) -> None:
        for rank, offers in enumerate(self._offers[1:], 1):
            for mine, other in zip_longest(self._offers[0], offers, fillvalue=NOTHING):
                if mine[0] != other[0]:
                    signature = "missing" if NOTHING in (mine, other) else "order"
                    self._report("R2", signature, mine[0], f"{other[0]} on rank {rank}")
                    break
        for offers in self._offers:
            offers.clear()
        self._concluded = 0

    def _tell_apart(self) -> None:
        for rank, journal in enumerate(self.journals[1:], 1):
            pairs = zip_longest(self.journals[0].entries, journal.entries)
            for mine, other in pairs:
                if mine != other:
                    odd = other if mine in journal.entries else mine
                    event = (odd or other or ("nothing",))[0]
                    self._report("R1", f"decided.{event}", mine, f"{other} on rank {rank}")
                    break


class Journal(Observer):
    """What one rank decided since the last comparison, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    # structure and residency

    def added(self, node: Node) -> None:
        self.entries.append(("added", *_place(node)))

    def split(self, upper: Node, lower: Node) -> None:
        self.entries.append(("split", *_place(upper), *_place(lower)))

    def removed(self, node: Node) -> None:
        self.entries.append(("removed", *_place(node)))

    def filling(self, node: Node, tier: Tier, component: int) -> None:
        self.entries.append(("filling", *_place(node), tier, component))

    def stored(self, node: Node, tier: Tier, component: int) -> None:
        self.entries.append(("stored", *_place(node), tier, component))

    def dropped(self, node: Node, tier: Tier, component: int) -> None:
        self.entries.append(("dropped", *_place(node), tier, component))

    # locks and copies

    def locked(self, lock: Lock) -> None:
        self.entries.append(("locked", lock.holder, *_place(lock.anchor), *lock.reach))

    def unlocked(self, lock: Lock) -> None:
        self.entries.append(("unlocked", lock.holder, *_place(lock.anchor)))

    def narrowed(self, lock: Lock, component: int) -> None:
        self.entries.append(("narrowed", lock.holder, component))

    def issued(self, copy: Copy) -> None:
        pages = sum(len(part.target) for part in copy.parts)
        self.entries.append(("issued", copy.number, copy.target, pages))

    def acknowledged(self, copy: Copy) -> None:
        self.entries.append(("acknowledged", copy.number, copy.target, copy.state.value))

    # storage: what is decided, not when it replies

    def persist_issued(self, persist: Persist) -> None:
        self.entries.append(("persist_issued", persist.number, persist.pages))

    def persisted(self, persist: Persist) -> None:
        state, stored = persist.state.value, persist.stored
        self.entries.append(("persisted", persist.number, state, persist.status.value, stored))

    def prefetch_asked(self, prefetch: Prefetch) -> None:
        asked = (prefetch.start, prefetch.limit, len(prefetch.questions))
        self.entries.append(("asked", prefetch.number, *asked))

    def prefetch_reserved(self, prefetch: Prefetch) -> None:
        self.entries.append(("reserved", prefetch.number, prefetch.end, len(prefetch.wanted)))

    def grafted(self, prefetch: Prefetch, nodes: list[Node]) -> None:
        grafted = (prefetch.grafted_end, len(nodes), len(prefetch.revived))
        self.entries.append(("grafted", prefetch.number, *grafted))

    def prefetch_ended(self, prefetch: Prefetch) -> None:
        self.entries.append(("fetched", prefetch.number, prefetch.outcome.value))

    def stepped(self, move: Persist | Prefetch) -> None:
        if isinstance(move, Prefetch):
            held = tuple(len(pages) for pages in move.held.values())
            self.entries.append(("holds", move.number, move.stopped, move.over, held))

    # results

    def matched(self, match: Match) -> None:
        self.entries.append(("matched", match.device.end, match.anchor.end, *match.load_pages))

    def loaded_back(self, match: Match, result: LoadBack) -> None:
        self.entries.append(("loaded_back", result.outcome.value, result.pages, result.room))

    def settled(self, match: Match, table: PageTable) -> None:
        waits = tuple(copy.number for copy in table.waits)
        self.entries.append(("settled", table.holder, table.shared, waits))

    def extended(self, table: PageTable, room: Room) -> None:
        self.entries.append(("extended", table.holder, len(table.full), room))

    def committed(self, table: PageTable, result: Commit) -> None:
        self.entries.append(("committed", table.holder, result))

    def closed(self, table: PageTable) -> None:
        self.entries.append(("closed", table.holder))

    def made_room(self, demand: Demand, room: Room) -> None:
        self.entries.append(("made_room", demand, room))


def _least(offers: list[Offer]) -> Offer:
    """Of a number, or of each of several."""
    rows = [offer if isinstance(offer, tuple) else (offer,) for offer in offers]
    least = tuple(min(column) for column in zip(*rows, strict=False))
    return least if isinstance(offers[0], tuple) else least[0]


def _place(node: Node) -> tuple[int, int, int]:
    return node.number, node.start, node.end


def content_of(cache: UnifiedCache) -> Iterator[Entry]:
    """Every node, and what it has where."""
    for node in cache.tree.nodes():
        there = tuple(slots is not None for tier in Tier for slots in node.slots[tier])
        filling = tuple(copy is not None for tier in Tier for copy in node.inbound[tier])
        counts = tuple(tuple(node.locks[tier]) for tier in Tier)
        kept = (node.hits, node.persisted)
        yield (node.namespace, *_place(node), node.edge, there, filling, counts, kept)
