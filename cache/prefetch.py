"""Prefetches: storage to host, for a request that waits.

    ask what is there -> reserve host slots -> fetch batch by batch -> graft

Invariant: from the first question to the graft the anchor is locked on the host (and, where the
policy keeps no closure, on the device), so it cannot lose what the graft hangs below.
"""

from collections.abc import Callable
from functools import partial

from cache.components import Rules
from cache.config import DEVICE, FULL, HOST, SWA, Component, PrefetchPolicy, StorageConfig, Tier
from cache.eviction import HostEvictor
from cache.grafting import Grafting
from cache.keys import Key
from cache.locks import NOT_HELD, LockTable
from cache.observer import Observer
from cache.packing import bodies_of, unpack
from cache.persist import NameOf
from cache.pools import Owner
from cache.residency import Residency
from cache.storage.contract import Fetched, Presence, Status, Storage
from cache.storage_moves import Outcome, Prefetch, PrefetchState, Reached, Wanted
from cache.strands import Strand
from cache.tree import Node, RadixTree


class Prefetches:
    def __init__(
        self,
        config: StorageConfig,
        residency: Residency,
        tree: RadixTree,
        locks: LockTable,
        hosts: HostEvictor,
        backend: Storage,
        strands: tuple[Strand, ...],
        name_of: NameOf,
        share: int,
        grafting: Grafting,
        tiers: tuple[Tier, ...],
        observer: Observer,
    ) -> None:
        self._config = config
        self._residency = residency
        self._rules: Rules = residency.rules
        self._tree = tree
        self._locks = locks
        self._hosts = hosts
        self._backend = backend
        self._strands = strands
        self._name_of = name_of
        self._share = share
        self._grafting = grafting
        self._tiers = tiers
        self._observer = observer
        self._page_size = tree.page_size
        self._numbers = 0
        self.live: dict[int, Prefetch] = {}

    # -- the request's side ----------------------------------------------------------------------

    def ask(self, key: Key, holder: str) -> Prefetch:
        """Begin to bring what storage has of `key` and the tree has not. Over at once, and nothing
        held, if that is too little or has nothing to hang below."""
        limit = max(0, key.tokens - 1) // self._page_size * self._page_size
        path = self._tree.walk(key, limit)
        anchor = path[-1] if path else self._tree.root
        self._numbers += 1
        reach = [NOT_HELD] * len(self._residency.nothing)
        reach[FULL] = 0
        if self._residency.windowed:  # the anchor's state serves nobody beyond it
            least = min(limit, anchor.end + self._page_size)
            reach[SWA] = min(anchor.end, self._rules[SWA].needed_from(least))
        lock = self._locks.acquire(anchor, reach, self._tiers, "prefetch")
        prefetch = Prefetch(self._numbers, key, anchor, limit, lock, holder)
        self.live[prefetch.number] = prefetch
        if limit - anchor.end < max(1, self._config.prefetch_threshold):
            self._end(prefetch, Outcome.TOO_SHORT)
        elif not self._has_host_copy(anchor):
            self._end(prefetch, Outcome.NO_ANCHOR)
        else:
            self._observer.prefetch_asked(prefetch)
        return prefetch

    def may_go_on(self, prefetch: Prefetch, waited_s: float) -> bool:
        """Whether the request may be admitted, by the policy; `conclude` then."""
        match self._config.prefetch_policy:
            case PrefetchPolicy.BEST_EFFORT:
                return True
            case PrefetchPolicy.WAIT_COMPLETE:
                return prefetch.over
            case PrefetchPolicy.TIMEOUT:
                return prefetch.over or waited_s >= self.timeout_s(prefetch)

    def timeout_s(self, prefetch: Prefetch) -> float:
        """How long `timeout` waits: the longer, the more there is to come."""
        config, tokens = self._config, prefetch.limit - prefetch.start
        return (
            config.prefetch_timeout_base_s + config.prefetch_timeout_per_ki_token_s * tokens / 1024
        )

    def conclude(self, prefetch: Prefetch, reached: Reached) -> None:
        """Ask for no more. What has landed (on every rank, as `reached` tells) is in the tree
        afterwards; a batch under way keeps its slots until its reply."""
        if prefetch.stopped:
            return
        if reached.answered and prefetch.phase is PrefetchState.ENDED:
            self.acknowledge(prefetch, reached)
        else:
            prefetch.granted = reached.arrived
            self._grafting.graft(prefetch)
            self._stop(prefetch, Outcome.PARTIAL, reached)

    def cancel(self, prefetch: Prefetch, reached: Reached) -> None:
        """The request has left: nothing of it is kept but the slots of a batch under way."""
        if not prefetch.stopped:
            self._stop(prefetch, Outcome.CANCELLED, reached)

    # -- storage's side --------------------------------------------------------------------------

    def run(self, prefetch: Prefetch) -> None:
        """A reply of storage comes in."""
        self.answer(prefetch, self.question(prefetch)())

    def question(self, prefetch: Prefetch) -> Callable[[], Presence | Fetched]:
        """`run` in two: what this returns may be called in another thread; `answer` then."""
        assert prefetch.outstanding, prefetch
        if prefetch.phase is PrefetchState.ASKED:
            return partial(self._backend.has, self._names(prefetch, self._all(prefetch)))
        return partial(self._backend.get, self._names(prefetch, self._batch(prefetch)))

    def answer(self, prefetch: Prefetch, reply: Presence | Fetched) -> None:
        """What is there is known, or what has come goes into its slots."""
        assert prefetch.outstanding, prefetch
        if isinstance(reply, Presence):
            prefetch.there, prefetch.status = reply
            prefetch.phase = PrefetchState.ANSWERED
            return
        fetched, batch = reply, self._batch(prefetch)
        for wanted, payload in zip(batch, fetched.payloads, strict=False):
            self._land(prefetch, wanted, payload)
        prefetch.status = fetched.status
        if prefetch.stopped:
            prefetch.phase = PrefetchState.ENDED
            return
        prefetch.arrived += len(fetched.payloads)
        self._ask_on(prefetch)

    def acknowledge(self, prefetch: Prefetch, reached: Reached) -> None:
        """The scheduler takes note: slots are reserved for what is there, or what has come is
        grafted."""
        assert not prefetch.outstanding
        assert not prefetch.over
        if prefetch.stopped:
            prefetch.kept = range(0)
            self._give_back(prefetch, 0, len(prefetch.wanted))
            self._end(prefetch, prefetch.outcome)
        elif prefetch.phase is PrefetchState.ANSWERED:
            self._reserve(prefetch)
        else:
            prefetch.granted = reached.arrived
            self._grafting.graft(prefetch)
            whole = reached.arrived == len(prefetch.wanted)
            self._give_back(prefetch, 0, len(prefetch.wanted))
            self._end(prefetch, Outcome.COMPLETE if whole else Outcome.PARTIAL)

    # -- steps -----------------------------------------------------------------------------------

    def _reserve(self, prefetch: Prefetch) -> None:
        """Host slots for the longest prefix that will be loadable, all components or none."""
        end = self._loadable_end(prefetch)
        if end - prefetch.start < max(1, self._config.prefetch_threshold):
            self._end(prefetch, Outcome.NOTHING if end == prefetch.start else Outcome.TOO_SHORT)
            return
        needed = self._needed(prefetch, end)
        self._observer.prefetch_reserving(prefetch)
        if not self._hosts.make_room(self._slots(needed)):
            self._end(prefetch, Outcome.NO_ROOM)
            return
        for component, pages in needed.items():
            slots = self._residency.pools[HOST, component].allocate(len(pages), Owner.COPY)
            prefetch.held[component] = dict(zip(pages, slots, strict=True))
        prefetch.first, prefetch.end = {c: pages.start for c, pages in needed.items()}, end
        prefetch.wanted = [
            Wanted(strand, page)
            for page in needed[FULL]
            for strand in self._strands
            if page in needed[strand.component]
        ]
        for strand in self._strands:
            own = prefetch.objects.get(strand.component, 0)
            prefetch.objects[strand.component] = own + 1
        self._observer.prefetch_reserved(prefetch)
        self._ask_on(prefetch)

    def _land(self, prefetch: Prefetch, wanted: Wanted, payload: memoryview) -> None:
        strand, slot = wanted.strand, prefetch.held[wanted.component][wanted.page]
        contents = unpack(strand.number, payload, self._share, len(strand.parts))
        pool = self._residency.pools[HOST, wanted.component]
        self._observer.landing(prefetch, wanted, slot, contents)
        strand.restore(pool, slot, contents, bodies_of(payload, strand.sizes(pool)))

    def _ask_on(self, prefetch: Prefetch) -> None:
        """The next batch, unless the last one fell short or was the last."""
        left = len(prefetch.wanted) - prefetch.arrived
        go_on = left > 0 and prefetch.status is Status.OK
        prefetch.asked = min(left, self._config.batch_pages) if go_on else 0
        prefetch.phase = PrefetchState.FETCHING if go_on else PrefetchState.ENDED

    def _needed(self, prefetch: Prefetch, end: int) -> dict[Component, range]:
        """By component, the pages to fetch for a prefix of `end` tokens."""
        first, stop = prefetch.start // self._page_size, end // self._page_size
        return {
            component: range(max(first, rule.needed_from(end) // self._page_size), stop)
            for component, rule in self._rules.items()
        }

    def _slots(self, needed: dict[Component, range]) -> list[int]:
        slots = list(self._residency.nothing)
        for component, pages in needed.items():
            slots[component] = len(pages)
        return slots

    def _stop(self, prefetch: Prefetch, outcome: Outcome, reached: Reached) -> None:
        prefetch.stopped, prefetch.outcome = True, outcome
        prefetch.kept = kept = reached.kept
        self._give_back(prefetch, 0, kept.start)
        self._give_back(prefetch, kept.stop, len(prefetch.wanted))
        self._locks.release(prefetch.lock)
        if reached.answered:
            self._end(prefetch, outcome)

    def _give_back(self, prefetch: Prefetch, first: int, stop: int) -> None:
        for component, slots in prefetch.give_up(first, stop).items():
            self._residency.pools[HOST, component].release(slots, Owner.COPY)

    def _end(self, prefetch: Prefetch, outcome: Outcome) -> None:
        prefetch.phase, prefetch.outcome = PrefetchState.OVER, outcome
        if prefetch.lock.live:
            self._locks.release(prefetch.lock)
        del self.live[prefetch.number]
        self._observer.prefetch_ended(prefetch)

    # -- what is there ---------------------------------------------------------------------------

    def _has_host_copy(self, anchor: Node) -> bool:
        if anchor.parent is None or anchor.ready(HOST, FULL):
            return True
        return len(self._tiers) > 1 and anchor.ready(DEVICE, FULL)

    def _all(self, prefetch: Prefetch) -> list[Wanted]:
        pages = range(prefetch.start // self._page_size, prefetch.limit // self._page_size)
        return [Wanted(strand, page) for strand in self._strands for page in pages]

    def _batch(self, prefetch: Prefetch) -> list[Wanted]:
        """What storage has been asked for."""
        return prefetch.wanted[prefetch.arrived : prefetch.arrived + prefetch.asked]

    def _names(self, prefetch: Prefetch, objects: list[Wanted]) -> list[bytes]:
        return [self._name(prefetch, wanted) for wanted in objects]

    def _name(self, prefetch: Prefetch, wanted: Wanted) -> bytes:
        prints = prefetch.key.prints(prefetch.limit // self._page_size)
        return self._name_of(wanted.strand.number, prints[wanted.page])

    def _loadable_end(self, prefetch: Prefetch) -> int:
        """How far (tokens) the prefix is loadable with the tree and storage together."""
        walks = [(component, rule.walk()) for component, rule in self._rules.items()]
        for node in reversed(list(prefetch.anchor.ancestors())):
            for component, walk in walks:
                here = node.ready(DEVICE, component) or node.ready(HOST, component)
                walk.step(here, node.start, node.end)
        end, pages = prefetch.start, (prefetch.limit - prefetch.start) // self._page_size
        for page in range(pages if prefetch.status is Status.OK else 0):
            start = prefetch.start + page * self._page_size
            valid, missing = True, self._missing(prefetch, page, pages)
            for component, walk in walks:
                valid &= walk.step(component not in missing, start, start + self._page_size)
            if valid:
                end = start + self._page_size
        return end

    def _missing(self, prefetch: Prefetch, page: int, pages: int) -> set[Component]:
        """The components that storage has not all of, for the n-th of `pages` asked for."""
        return {
            strand.component
            for at, strand in enumerate(self._strands)
            if not prefetch.there[at * pages + page]
        }
