"""Persists: host to storage, heads before tails.

A node's pages go to storage when they are on the host and its parent's are in storage or ahead of
them in the queue. `Node.persisted` is what the cache believes is there; a reply that says otherwise
corrects it. Invariant: persists run and are acknowledged in order, so no tail goes before its head.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cache.config import FULL, HOST, MAMBA, Tier
from cache.locks import NOT_HELD, LockTable
from cache.observer import Observer
from cache.packing import pack
from cache.pools import SlotPool
from cache.residency import Residency
from cache.storage.contract import ROOT, Page, Status, Storage, Stored
from cache.storage_moves import Persist, Source
from cache.strands import ITSELF, Strand
from cache.transfers import CopyState
from cache.tree import Node


class Parcel(NamedTuple):
    """What goes to storage of one node and strand: the slots that it lies in, and by slot the
    names of the page and of its head."""

    strand: Strand
    pool: SlotPool
    slots: list[int]
    names: list[tuple[bytes, bytes]]


class Sent(NamedTuple):
    """What storage was given, and what it said."""

    pages: list[Page]
    stored: Stored


NameOf = Callable[[int, int], bytes]  # of a strand's object for a page, by its fingerprint


class Persists:
    def __init__(
        self,
        residency: Residency,
        locks: LockTable,
        backend: Storage,
        strands: tuple[Strand, ...],
        name_of: NameOf,
        share: int,
        tiers: tuple[Tier, ...],
        observer: Observer,
    ) -> None:
        self._residency = residency
        self._locks = locks
        self._backend = backend
        self._strands = strands
        self._paged = ~sum(1 << s.number for s in strands if s.component is MAMBA)
        self._name_of = name_of
        self._share = share
        self._tiers = tiers
        self._observer = observer
        self._numbers = 0
        self.queue: deque[Persist] = deque()
        self.held_back = 0  # for want of this share of the host

    def consider(self, nodes: Iterable[Node]) -> None:
        """Queue what `nodes` (top down) have on the host and storage lacks, if their heads are in
        storage or queued. At most half of the host is under way at once, so that a storage that
        has stopped answering cannot take it all."""
        for node in nodes:
            lacking = [strand for strand in self._strands if self._lacks(node, strand)]
            if not lacking or not self._has_head(node, lacking):
                continue
            pages = len(node.slots[HOST][FULL] or ())
            if self.queue and self._pages() + pages > self._most_pages():
                self.held_back += 1
                continue
            self._issue(node, lacking)

    def run(self, persist: Persist) -> None:
        """Storage takes the pages, or does not."""
        pages = self._pages_of(persist)
        self.answer(persist, Sent(pages, self._backend.put(pages)))

    def question(self, persist: Persist) -> Callable[[], Sent]:
        """`run` in two: what this returns may be called in another thread, which reads the slots
        and has storage take them; `answer` then. The slots are kept until the acknowledgement."""
        parcels = self._parcels_of(persist)

        def put() -> Sent:
            pages = [page for parcel in parcels for page in self._wrap(parcel)]
            return Sent(pages, self._backend.put(pages))

        return put

    def answer(self, persist: Persist, sent: Sent) -> None:
        """Storage has said how much of it it took."""
        assert persist is next(p for p in self.queue if p.outstanding), "persists run in order"
        self._observer.persisting(persist, sent.pages)
        persist.stored, persist.status = sent.stored
        persist.state = CopyState.RAN

    def acknowledge(self, persist: Persist) -> None:
        """The oldest persist is over: what was stored is known, and what hangs below may follow."""
        assert persist is self.queue[0], "persists are acknowledged in order"
        assert persist.state is CopyState.RAN
        self.queue.popleft()
        left = persist.stored
        below: list[Node] = []
        for node, strand, slots in persist.sources:
            node.persisting &= ~(1 << strand.number)
            if left >= len(slots):
                node.persisted |= 1 << strand.number
                below += node.children.values()
            left -= len(slots)
        if persist.status is Status.ABSENT:
            for node in persist.lock.anchor.ancestors():
                node.persisted = 0  # some head is gone: next time from the top
        done = persist.status is Status.OK
        persist.state = CopyState.DONE if done else CopyState.FAILED
        self._locks.release(persist.lock)
        self._observer.persisted(persist)
        if done:
            self.consider(dict.fromkeys(below))

    def follow_split(self, upper: Node, lower: Node, pages: int) -> None:
        # In storage, too, a state is that of the lower half's end.
        upper.persisted &= self._paged
        upper.persisting &= self._paged
        if lower.persisting:
            for persist in self.queue:
                persist.follow_split(upper, lower, pages)

    def _issue(self, node: Node, lacking: list[Strand]) -> None:
        reach = [NOT_HELD] * len(self._residency.nothing)
        reach[FULL] = 0
        sources = []
        for strand in lacking:
            if strand.component is not FULL:
                reach[strand.component] = node.start
            slots = node.slots[HOST][strand.component]
            assert slots is not None
            sources.append(Source(node, strand, list(slots)))
            node.persisting |= 1 << strand.number
        self._numbers += 1
        lock = self._locks.acquire(node, reach, self._tiers, "persist")
        persist = Persist(self._numbers, sources, lock)
        self.queue.append(persist)
        self._observer.persist_issued(persist)

    def _lacks(self, node: Node, strand: Strand) -> bool:
        known = node.persisted | node.persisting
        return not known >> strand.number & 1 and node.ready(HOST, strand.component)

    def _has_head(self, node: Node, lacking: list[Strand]) -> bool:
        if lacking[0].number != FULL:  # of any other one the head is FULL, or one that is known
            return bool((node.persisted | node.persisting) >> FULL & 1)
        parent = node.parent
        assert parent is not None
        return parent.parent is None or bool((parent.persisted | parent.persisting) >> FULL & 1)

    def _most_pages(self) -> int:
        """As large as the pool is by now: ranks agree on that after it was made."""
        return max(1, self._residency.pools[HOST, FULL].capacity // 2)

    def _pages(self) -> int:
        return sum(persist.pages for persist in self.queue)

    def _pages_of(self, persist: Persist) -> list[Page]:
        """In the order of the sources; what is read is what lies in the slots now."""
        return [page for parcel in self._parcels_of(persist) for page in self._wrap(parcel)]

    def _parcels_of(self, persist: Persist) -> list[Parcel]:
        """Everything of the pages but what lies in their slots."""
        parcels = []
        for node, strand, slots in persist.sources:
            pool = self._residency.pools[HOST, strand.component]
            prints = self._residency.tree.prints(node)
            parent = node.parent
            assert parent is not None
            above = self._residency.tree.prints(parent)
            heads = [*above[-1:], *prints] if above else [0, *prints]
            named = prints[-1:] if strand.component is MAMBA else prints
            owner = FULL if ITSELF in strand.parts else strand.component
            names = []
            for print_, head in zip(named, heads, strict=False):
                key = self._name_of(strand.number, print_)
                if strand.number != FULL:
                    names.append((key, self._name_of(owner, print_)))
                else:
                    names.append((key, self._name_of(FULL, head) if head else ROOT))
            parcels.append(Parcel(strand, pool, slots, names))
        return parcels

    def _wrap(self, parcel: Parcel) -> list[Page]:
        strand, pool, slots, names = parcel
        contents, bodies = strand.read(pool, slots), strand.bodies(pool, slots)
        return [
            Page(key, head, pack(strand.number, content, self._share, body))
            for (key, head), content, body in zip(names, contents, bodies, strict=False)
        ]
