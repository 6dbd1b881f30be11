"""C1, D1, M1, M2, S5 on the way from storage: what is fetched is asked for, whole, and its own."""

from cache.config import Component, PrefetchPolicy, Tier, WritePolicy
from cache.contract import Match
from cache.keys import Key
from cache.locks import NOT_HELD, Lock
from cache.pools import Owner, SlotPool
from cache.storage.contract import Status
from cache.storage_moves import Outcome, Persist, Prefetch, Wanted
from cache.table import PageTable
from cache.tree import Node
from harness.oracles import naive
from harness.oracles.base import Oracle
from harness.oracles.reachable import Bit, Bits, beyond, bits_of, found, longest, needed


class Prefetches(Oracle):
    """A prefetch is asked for what the tree lacks and could take, unless that is too little, and
    goes as far as tree and storage together can serve (M1, M2). While it is under way its anchor
    and the window up from there are covered (L1), and the anchor cannot lose its host copy (S5).
    Every page that lands is the key's, in a slot of the prefetch that nobody has given away (C1,
    D1). What has landed is in the tree when the prefetch is over, up to what a copy fills (M2). One
    that was stopped keeps no more than the batch under way, one that is over nothing (L3, O1).
    Nobody is admitted who should wait (P1). Silent about what storage had and did not give."""

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
        if not lock.live or lock.anchor is not anchor:
            self.report("L1", "cover.prefetch", f"a live lock at {anchor}", lock)
            return
        if anchor.parent is None:
            return
        if lock.reach[Component.FULL] != 0 or not set(self._tiers) <= set(lock.tiers):
            self.report("L1", "cover.prefetch", f"the path to {anchor} covered", lock)
        least = min(prefetch.limit, prefetch.start + self.page_size)
        window = self.needed_from(least) if self.windowed else anchor.end
        if window < anchor.end and not NOT_HELD < lock.reach[Component.SWA] <= window:
            expected = f"the window from {window} up to {anchor} covered"
            self.report("L1", "cover.prefetch.window", expected, lock.reach)
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
        if move.over and not move.there:
            self._declined(move)
        elif move.stopped and not move.over:
            self._stopped(move)

    def prefetch_reserved(self, prefetch: Prefetch) -> None:
        end, bits = self._reachable(prefetch), self._bits(prefetch)
        if prefetch.end != end:
            oracle = "M1" if prefetch.end > end else "M2"
            self.report(oracle, "prefetch.end", f"{end} tokens", prefetch.end)
        lacking = needed(prefetch.end, self.needs) - bits.there
        for component in self.components:
            held = prefetch.held.get(component, {})
            pages = sorted(page for c, page in lacking if c is component)
            if component is Component.FULL:
                pages = [page for page in pages if page * self.page_size >= prefetch.anchor.end]
            if list(held) != pages:
                name = component.name.lower()
                self.report("M1", f"prefetch.pages.{name}", pages, list(held))
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
        first = prefetch.wanted[0].page * self.page_size if prefetch.wanted else 0
        for node in path:
            if node.end > first and not self._hangs(node):
                self.report("S5", "graft.hole", f"{node} on the host", "not there")
            if node.end > first and any(node.inbound[Tier.HOST]):
                self.report("D1", "graft.filling", f"{node} landed first", prefetch)
            self._taken(prefetch, node)
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

    def _taken(self, prefetch: Prefetch, node: Node) -> None:
        """What has come for all of a node is the node's, if it lacked that and has its FULL."""
        if node.slots[Tier.HOST][Component.FULL] is None:
            return
        coming = {(w.component, w.page) for w in prefetch.wanted[prefetch.granted :]}
        for component in self.components:
            pages = range(node.start // self.page_size, node.end // self.page_size)
            if component is Component.MAMBA:
                pages = pages[-1:]
            held = prefetch.held.get(component, {})
            whole = all(page in held and (component, page) not in coming for page in pages)
            if whole and node.slots[Tier.HOST][component] is None:
                name = component.name.lower()
                self.report("M2", f"graft.left.{name}", f"{node} takes what has come", "left out")

    def _begins(self, prefetch: Prefetch) -> None:
        """With what the nodes of the key's path lack that the host has FULL of, and everything
        below, if something may hang there; beyond what the tree serves alone."""
        path, anchor, limit = self._path(prefetch.key)
        bits = bits_of(path, self.needs)
        start = longest(bits.there, path[-1].end if path else 0, self.needs)
        seen: object = (prefetch.start, prefetch.limit, prefetch.anchor.end)
        if seen != (start, limit, anchor):
            self.report("M2", "prefetch.asks", f"{start} .. {limit} by {anchor}", seen)
            return
        least = min(limit, start + self.page_size)
        window = self.needed_from(least) // self.page_size if self.windowed else 0
        begins = (0, window, start // self.page_size)
        asked = {(w.component, w.page) for w in prefetch.questions}
        held = [node for node in path if node.end <= anchor]
        whole = (bits if len(held) == len(path) else bits_of(held, self.needs)).absent
        whole = whole | beyond(prefetch.anchor, limit, self.needs)
        wanted = {bit for bit in whole if begins[bit[0]] <= bit[1] < limit // self.page_size}
        if asked != wanted or len(prefetch.questions) != self._strands_of(wanted):
            seen = sorted(asked ^ wanted) or len(prefetch.questions)
            self.report("M2", "prefetch.questions", f"{len(wanted)} of {prefetch}", seen)

    def _path(self, key: Key) -> tuple[list[Node], int, int]:
        """The nodes that a key spells; where the deepest of them ends below which something may
        hang; and how far a prefetch may go."""
        limit = max(0, key.tokens - 1) // self.page_size
        path, _ = naive.walk(self.cache.tree.root, key, limit)
        held = [node for node in path if self._may_hang(node)]
        anchor = held[-1].end if held else 0
        whole = not path or path[-1].end == anchor
        return path, anchor, limit * self.page_size if whole else anchor

    def _strands_of(self, bits: set[Bit]) -> int:
        return sum(
            strand.component is component for component, _ in bits for strand in self._strands
        )

    def _declined(self, prefetch: Prefetch) -> None:
        """It was over at once, or storage said nothing."""
        if prefetch.outcome not in (Outcome.TOO_SHORT, Outcome.NO_ANCHOR):
            return
        path, anchor, limit = self._path(prefetch.key)
        bits = bits_of(path, self.needs)
        start = longest(bits.there, path[-1].end if path else 0, self.needs)
        most = max(0, prefetch.key.tokens - 1) // self.page_size * self.page_size
        if prefetch.outcome is Outcome.TOO_SHORT and most - start >= self._threshold:
            expected = f"{most - start} tokens asked for"
            self.report("M2", "prefetch.threshold", expected, f"under {self._threshold}")
        takes = limit > anchor or any(
            start <= page * self.page_size < limit for _, page in bits.absent
        )
        if prefetch.outcome is Outcome.NO_ANCHOR and limit - start >= self._threshold and takes:
            self.report(
                "M2", "prefetch.declined", f"something goes to {prefetch.anchor}", "declined"
            )

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
                more = self._reachable(prefetch) - prefetch.start
                if more >= self._threshold:
                    self.report("M2", "prefetch.found", f"{more} tokens fetched", "given up")
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

    def _may_hang(self, node: Node) -> bool:
        if node.ready(Tier.HOST, Component.FULL):
            return True
        return not self._closed and node.ready(Tier.DEVICE, Component.FULL)

    def _bits(self, prefetch: Prefetch) -> Bits:
        return bits_of(naive.path_of(prefetch.anchor), self.needs)

    def _reachable(self, prefetch: Prefetch) -> int:
        """How far (tokens) the prefix can be served with the tree and what storage said it has."""
        there, absent = self._bits(prefetch)
        start = longest(there, prefetch.anchor.end, self.needs)
        if prefetch.status is not Status.OK or not prefetch.there:
            return start
        takes = absent | beyond(prefetch.anchor, prefetch.limit, self.needs)
        return longest(there | found(prefetch) & takes, prefetch.limit, self.needs)
