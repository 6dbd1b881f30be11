"""Prefetches: storage to host, for a request that waits.

    ask what is there -> reserve host slots -> fetch batch by batch -> graft

What is asked for is what the tree lacks (`cache.lacking`). Invariant: from the first question to
the graft the path down to the anchor, and what the tree has of its window, are locked on the host
(and, where the policy keeps no closure, on the device), so no node can lose what the graft goes to.
"""

from collections.abc import Callable
from functools import partial

from cache.components import Rules
from cache.config import FULL, HOST, SWA, Component, PrefetchPolicy, StorageConfig, Tier
from cache.eviction import HostEvictor
from cache.grafting import Grafting
from cache.keys import Key
from cache.lacking import Lacking
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
        lacking: Lacking,
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
        self._lacking = lacking
        self._grafting = grafting
        self._tiers = tiers
        self._observer = observer
        self._page_size = tree.page_size
        self._numbers = 0
        self.live: dict[int, Prefetch] = {}

    # -- the request's side ----------------------------------------------------------------------

    def ask(self, key: Key, holder: str) -> Prefetch:
        """Begin to bring what storage has of `key` and the tree has not. Over at once, and nothing
        held, if that is too little or no node could take it."""
        limit = max(0, key.tokens - 1) // self._page_size * self._page_size
        path = self._tree.walk(key, limit)
        deepest = path[-1] if path else self._tree.root
        anchor, start = self._lacking.anchor(path), self._lacking.servable(deepest)
        upto = limit if anchor is deepest else anchor.end
        self._numbers += 1
        lock = self._locks.acquire(
            anchor, self._reach(anchor, start, upto), self._tiers, "prefetch"
        )
        prefetch = Prefetch(self._numbers, key, anchor, start, upto, lock, holder)
        self.live[prefetch.number] = prefetch
        if upto - start >= self._least:
            prefetch.questions = self._lacking.questions(anchor, start, upto)
        if prefetch.questions:
            self._observer.prefetch_asked(prefetch)
        else:
            far = limit - start >= self._least
            self._end(prefetch, Outcome.NO_ANCHOR if far else Outcome.TOO_SHORT)
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
            return partial(self._backend.has, self._names(prefetch, prefetch.questions))
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
        """Host slots for what the longest prefix lacks that will be loadable, all components or
        none."""
        prefetch.start = start = self._lacking.servable(prefetch.anchor)
        end = self._loadable_end(prefetch)
        if end - start < self._least:
            self._end(prefetch, Outcome.NOTHING if end <= start else Outcome.TOO_SHORT)
            return
        wanted = self._lacking.wanted(prefetch.anchor, end)
        slots = self._slots(wanted)
        self._observer.prefetch_reserving(prefetch)
        if not self._hosts.make_room(slots):
            self._end(prefetch, Outcome.NO_ROOM)
            return
        for component in self._rules:
            pages = list(dict.fromkeys(w.page for w in wanted if w.component is component))
            own = self._residency.pools[HOST, component].allocate(len(pages), Owner.COPY)
            prefetch.held[component] = dict(zip(pages, own, strict=True))
        prefetch.end, prefetch.wanted, prefetch.first = end, wanted, self._first(prefetch, end)
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

    @property
    def _least(self) -> int:
        """Tokens for which it is worth the while."""
        return max(1, self._config.prefetch_threshold)

    def _first(self, prefetch: Prefetch, end: int) -> dict[Component, int]:
        """The page from which a prefix of `end` tokens needs each component. FULL is there down to
        the anchor; of a state there is only the end."""
        first = {FULL: prefetch.anchor.end // self._page_size}
        if self._residency.windowed:
            first[SWA] = self._rules[SWA].needed_from(end) // self._page_size
        return first

    def _slots(self, wanted: list[Wanted]) -> list[int]:
        slots = list(self._residency.nothing)
        for component, _ in dict.fromkeys((w.component, w.page) for w in wanted):
            slots[component] += 1
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

    def _reach(self, anchor: Node, start: int, limit: int) -> list[int]:
        """Of the window as much as the shortest prefix could need that this is to make servable;
        the anchor's own state serves nobody beyond it."""
        reach = [NOT_HELD] * len(self._residency.nothing)
        reach[FULL] = 0
        if self._residency.windowed:
            least = min(limit, start + self._page_size)
            reach[SWA] = min(anchor.end, self._rules[SWA].needed_from(least))
        return reach

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
        anchor, start = prefetch.anchor, prefetch.start
        if prefetch.status is not Status.OK:
            return start
        absent = self._absent(prefetch)
        asked = {(w.component, w.page) for w in prefetch.questions}

        def have(component: Component, page: int) -> bool:
            return (component, page) in asked and (component, page) not in absent

        return self._lacking.reachable(anchor, start, prefetch.limit, have)

    def _absent(self, prefetch: Prefetch) -> set[tuple[Component, int]]:
        """Of the questions, the pages of which storage has not all strands."""
        answers = zip(prefetch.questions, prefetch.there, strict=True)
        return {(wanted.component, wanted.page) for wanted, there in answers if not there}
