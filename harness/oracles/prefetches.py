"""C1, D1, M1, M2, S5 on the way from storage: what is fetched is asked for, whole, and its own."""

from cache.config import Component, PrefetchPolicy, Tier, WritePolicy
from cache.contract import Match
from cache.locks import Lock
from cache.pools import Owner, SlotPool
from cache.storage.contract import Status
from cache.storage_moves import Outcome, Persist, Prefetch, Wanted
from cache.table import PageTable
from cache.tree import Node
from harness.oracles import naive
from harness.oracles.base import Oracle


class Prefetches(Oracle):
    """A prefetch is asked for what the tree lacks, unless that is too little or has nothing to hang
    below, and goes as far as tree and storage together can serve (M1, M2). While it is under way
    its anchor is covered (L1) and cannot lose its host copy (S5). Every page that lands is the
    key's, in a slot of the prefetch that nobody has given away (C1, D1). What has landed is in the
    tree when the prefetch is over, up to what a copy fills (M2). One that was stopped keeps no more
    than the batch under way, one that is over nothing (L3, O1). Nobody is admitted who should wait
    (P1). Silent about pages that storage had and did not give."""

    name = "prefetches"

    def applies(self) -> bool:
        return self.cache.storage is not None

    def begin(self) -> None:
        config = self.cache.config
        self._threshold = 0
        self._waits = False
        if config.storage is not None:
            self._threshold = max(1, config.storage.prefetch_threshold)
            self._waits = config.storage.prefetch_policy is PrefetchPolicy.WAIT_COMPLETE
        self._closed = config.write_policy is not WritePolicy.WRITE_BACK
        self._tiers = (Tier.HOST,) if self._closed else (Tier.DEVICE, Tier.HOST)
        self._live: dict[int, Prefetch] = {}
        storage = self.cache.storage
        self._strands = storage.strands if storage is not None else ()
        self._targets: dict[SlotPool, dict[int, tuple[Prefetch, int]]] = {}
        for (tier, _), pool in self.cache.pools.items():
            if tier is Tier.HOST:
                self._targets[pool] = {}
        self._landed: dict[int, int] = {}  # pages, by the number of the prefetch
        self._there: dict[int, tuple[bool, ...]] = {}  # as this rank's storage said

    # -- asked -----------------------------------------------------------------------------------

    def prefetch_asked(self, prefetch: Prefetch) -> None:
        self._live[prefetch.number] = prefetch
        self._landed[prefetch.number] = 0
        self._begins(prefetch)
        lock, anchor = prefetch.lock, prefetch.anchor
        if not lock.live or lock.anchor is not anchor or anchor.parent is None:
            if not lock.live or lock.anchor is not anchor:
                self.report("L1", "cover.prefetch", f"a live lock at {anchor}", lock)
            return
        if lock.reach[Component.FULL] != 0 or not set(self._tiers) <= set(lock.tiers):
            self.report("L1", "cover.prefetch", f"the path to {anchor} covered", lock)
        if not self._hangs(anchor):
            self.report("S5", "prefetch.anchor", f"{anchor} on the host", "not there")

    def replied(self, move: Persist | Prefetch) -> None:
        if isinstance(move, Prefetch) and not move.wanted:
            self._there[move.number] = move.there if move.status is Status.OK else ()

    def heeded(self, move: Persist | Prefetch) -> None:
        """What ranks have agreed on is no better than what this one's storage said."""
        if isinstance(move, Prefetch) and move.status is Status.OK:
            own = self._there.get(move.number, ())
            if len(own) != len(move.there) or any(
                there and not here for there, here in zip(move.there, own, strict=True)
            ):
                self.report("R1", "prefetch.heeded", f"no more than {own}", move.there)

    def stepped(self, move: Persist | Prefetch) -> None:
        if not isinstance(move, Prefetch):
            return
        if move.over and not move.there and move.outcome is not Outcome.CANCELLED:
            self._declined(move)
        elif move.stopped and not move.over:
            self._stopped(move)

    def prefetch_reserved(self, prefetch: Prefetch) -> None:
        end = self._reachable(prefetch)
        if prefetch.end != end:
            oracle = "M1" if prefetch.end > end else "M2"
            self.report(oracle, "prefetch.end", f"{end} tokens", prefetch.end)
        needed = self.needed_from(prefetch.end) // self.page_size if self.windowed else 0
        first, stop = prefetch.start // self.page_size, prefetch.end // self.page_size
        for component, held in prefetch.held.items():
            begin = first if component is Component.FULL else max(first, needed)
            if component is Component.MAMBA:
                begin = stop - 1  # one state, that of the end
            if list(held) != list(range(begin, stop)):
                name = component.name.lower()
                self.report("M1", f"prefetch.pages.{name}", f"{begin} .. {stop}", list(held))
            targets = self._targets[self.cache.pools[Tier.HOST, component]]
            targets.update((slot, (prefetch, page)) for page, slot in held.items())

    # -- under way -------------------------------------------------------------------------------

    def landing(
        self, prefetch: Prefetch, wanted: Wanted, slot: int, contents: tuple[int, ...]
    ) -> None:
        pool = self.cache.pools[Tier.HOST, wanted.component]
        target = self._targets[pool].get(slot)
        if target is None or target[0] is not prefetch:
            self.report("D1", f"landing.{pool.name}", f"slot {slot} kept for {prefetch}", "not so")
            return
        self._landed[prefetch.number] = self._landed.get(prefetch.number, 0) + 1
        page, name = target[1], pool.name
        if wanted.strand.number != wanted.component:
            name += f".{wanted.strand.name.partition('.')[2]}"
        expected = prefetch.key.prints()[page]
        if contents != (expected,) * len(wanted.strand.parts):
            what = f"{expected:016x} at page {page} for {prefetch.holder}"
            seen = ", ".join(f"{content:016x}" for content in contents)
            self.report("C1", f"landing.{name}", what, seen)

    def releasing(self, pool: SlotPool, slots: list[int], owner: Owner) -> None:
        targets = self._targets.get(pool)
        if not targets or targets.keys().isdisjoint(slots):
            return
        for slot in slots:
            target = targets.pop(slot, None)
            if target is None:
                continue
            prefetch, page = target
            batch = prefetch.wanted[prefetch.arrived : prefetch.arrived + prefetch.asked]
            coming = any(
                w.page == page and self.cache.pools[Tier.HOST, w.component] is pool for w in batch
            )
            if prefetch.outstanding and coming:
                self.report("D1", f"release.prefetch.{pool.name}", f"kept for {prefetch}", slot)

    def moved(self, pool: SlotPool, slots: list[int], old: Owner, new: Owner) -> None:
        targets = self._targets.get(pool)
        if targets:
            for slot in slots:
                targets.pop(slot, None)

    def unlocked(self, lock: Lock) -> None:
        for prefetch in self._live.values():
            if prefetch.lock is lock and not prefetch.stopped and not prefetch.over:
                self.report("L1", "early.prefetch", f"{lock} held until it is over", prefetch)

    def settled(self, match: Match, table: PageTable) -> None:
        for prefetch in self._live.values():
            if prefetch.holder == table.holder and not prefetch.stopped:
                self.report("P1", "prefetch.unwaited", f"{prefetch} concluded first", "admitted")

    # -- the end ---------------------------------------------------------------------------------

    def grafted(self, prefetch: Prefetch, nodes: list[Node]) -> None:
        """Every page on the way down to where it ended is on the host, and surely so: under
        `write_back` the parent on the device will do, whatever becomes of its backup."""
        landed = self._landed.get(prefetch.number, 0)
        if prefetch.granted > landed:
            self.report("M1", "graft.granted", f"{landed} pages, which have come", prefetch.granted)
        if self.stateful and nodes and not nodes[-1].slots[Tier.HOST][Component.MAMBA]:
            self.report("M1", "graft.state", f"a state at the end of {nodes[-1]}", "none")
        path, surplus = naive.walk(
            self.cache.tree.root, prefetch.key, prefetch.grafted_end // self.page_size
        )
        if surplus or (path[-1].end if path else 0) != prefetch.grafted_end:
            self.report("M2", "graft.path", f"{prefetch.grafted_end} tokens", path[-1:])
        for node in path:
            if node.end > prefetch.start and not self._hangs(node):
                self.report("S5", "graft.hole", f"{node} on the host", "not there")
            if node.end > prefetch.start and any(node.inbound[Tier.HOST]):
                self.report("D1", "graft.filling", f"{node} landed first", prefetch)
        if prefetch.anchor.parent is not None and not self._hangs(prefetch.anchor):
            self.report("S5", "graft.anchor", f"{prefetch.anchor} on the host", "not there")

    def prefetch_ended(self, prefetch: Prefetch) -> None:
        if self._live.pop(prefetch.number, None) is None:
            return
        landed = self._landed.pop(prefetch.number, 0)
        self._there.pop(prefetch.number, None)
        if prefetch.lock.live:
            self.report("L3", "kept.prefetch", f"{prefetch.lock} handed back", "still held")
        for targets in self._targets.values():
            kept = [slot for slot, (whose, _) in targets.items() if whose is prefetch]
            if kept:
                self.report("O1", "leak.prefetch", f"nothing held for {prefetch}", kept)
        whole = landed == len(prefetch.wanted) > 0
        if (prefetch.outcome is Outcome.COMPLETE) and not whole:
            expected = f"{len(prefetch.wanted)} pages before it is complete"
            self.report("M1", "prefetch.complete", expected, landed)
        self._ended(prefetch, landed)

    def at_rest(self) -> None:
        for prefetch in self._live.values():
            self.report("D2", "prefetch.kept", "nothing under way at rest", prefetch)

    # -- helpers -----------------------------------------------------------------------------

    def _begins(self, prefetch: Prefetch) -> None:
        """At the deepest node of the key's path, for everything below it."""
        limit = max(0, prefetch.key.tokens - 1) // self.page_size
        path, _ = naive.walk(self.cache.tree.root, prefetch.key, limit)
        end = path[-1].end if path else 0
        if prefetch.start != end or prefetch.limit != limit * self.page_size:
            seen = f"{prefetch.start} .. {prefetch.limit}"
            self.report("M2", "prefetch.asks", f"{end} .. {limit * self.page_size}", seen)

    def _declined(self, prefetch: Prefetch) -> None:
        self._begins(prefetch)
        enough = prefetch.limit - prefetch.start >= self._threshold
        if prefetch.outcome is Outcome.TOO_SHORT and enough:
            expected = f"{prefetch.limit - prefetch.start} tokens asked for"
            self.report("M2", "prefetch.threshold", expected, f"under {self._threshold}")
        if prefetch.outcome is Outcome.NO_ANCHOR and self._may_hang(prefetch.anchor):
            self.report("M2", "prefetch.declined", f"{prefetch.anchor} to hang below", "declined")

    def _stopped(self, prefetch: Prefetch) -> None:
        held, kept = sum(map(len, prefetch.held.values())), len(prefetch.kept)
        if held > kept:
            self.report("O1", "stopped.prefetch", f"{kept} slots under way", held)
        if not set(prefetch.reached.kept) <= set(prefetch.kept):
            self.report("D1", "stopped.kept", f"{prefetch.reached} kept", prefetch.kept)
        if prefetch.lock.live:
            self.report("L3", "stopped.prefetch", f"{prefetch.lock} handed back", "still held")

    def _ended(self, prefetch: Prefetch, landed: int) -> None:
        """Why it brought no more than it did."""
        match prefetch.outcome:
            case Outcome.NOTHING | Outcome.TOO_SHORT if not prefetch.wanted:
                found = self._reachable(prefetch) - prefetch.start
                if found >= self._threshold:
                    self.report("M2", "prefetch.found", f"{found} tokens fetched", "given up")
            case Outcome.PARTIAL:
                good = prefetch.status is Status.OK
                if self._waits and good and not self._cut_by_tree(prefetch, landed):
                    self.report("P1", "prefetch.cut", f"{prefetch} waited for", f"{landed} pages")

    def _cut_by_tree(self, prefetch: Prefetch, landed: int) -> bool:
        return bool(prefetch.wanted) and landed == len(prefetch.wanted)

    def _hangs(self, node: Node) -> bool:
        """Whether the node may have something of the host below it."""
        if node.slots[Tier.HOST][Component.FULL] is not None:
            return True
        return not self._closed and node.slots[Tier.DEVICE][Component.FULL] is not None

    def _may_hang(self, anchor: Node) -> bool:
        if anchor.parent is None or anchor.ready(Tier.HOST, Component.FULL):
            return True
        return not self._closed and anchor.ready(Tier.DEVICE, Component.FULL)

    def _reachable(self, prefetch: Prefetch) -> int:
        """How far (tokens) the prefix can be served with the tree and what storage said it has."""
        if prefetch.status is not Status.OK or not prefetch.there:
            return prefetch.start
        pages = (prefetch.limit - prefetch.start) // self.page_size
        there = dict.fromkeys(self.components, (True,) * pages)
        for at, strand in enumerate(self._strands):  # a page without a companion does not count
            own = prefetch.there[at * pages : (at + 1) * pages]
            both = zip(there[strand.component], own, strict=True)
            there[strand.component] = tuple(a and b for a, b in both)
        full, swa = there[Component.FULL], there.get(Component.SWA, ())
        states = there.get(Component.MAMBA, ())
        path = naive.path_of(prefetch.anchor)
        for count in range(pages, 0, -1):
            end = prefetch.start + count * self.page_size
            if not all(full[:count]) or (self.stateful and not states[count - 1]):
                continue
            if not self.windowed or self._window_there(prefetch, path, swa, end):
                return end
        return prefetch.start

    def _window_there(
        self, prefetch: Prefetch, path: list[Node], swa: tuple[bool, ...], end: int
    ) -> bool:
        needed = self.needed_from(end)
        above = all(
            any(node.ready(tier, Component.SWA) for tier in Tier)
            for node in path
            if node.end > needed
        )
        first = max(0, needed - prefetch.start) // self.page_size
        return above and all(swa[first : (end - prefetch.start) // self.page_size])
