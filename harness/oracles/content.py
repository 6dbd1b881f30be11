"""C1, C2: a slot holds the page that its owner stands for, and nothing is read before it is
written."""

from cache.config import Component, Tier
from cache.contract import Match, Reading
from cache.keys import UNWRITTEN, Key, state_print
from cache.pools import SlotPool
from cache.table import PageTable
from cache.transfers import Copy
from cache.tree import Node
from harness.oracles.base import Oracle


class Content(Oracle):
    """Fingerprints are those of the request's own key when it reads or writes, of the node when its
    pages or its state become ready and when they are copied; compute writes only where the request
    owns the slot, and a request's own state begins as that of its hit. Silent about what nobody
    reads, copies or publishes until the next audit."""

    name = "content"

    def begin(self) -> None:
        self._keys: dict[PageTable, Key] = {}
        # By page: those of the matched key as they are asked for, then as they were written.
        self._prints: dict[PageTable, list[int]] = {}
        self._places = {pool: place for place, pool in self.cache.pools.items()}
        self._states = self.cache.pools.get((Tier.DEVICE, Component.MAMBA))
        self._stop: dict[PageTable, int] = {}  # pages, of the FULL that was written last

    def matched(self, match: Match) -> None:
        """The prefix found is the key's, namespace included."""
        for node in (match.device, match.anchor):
            pages = node.end // self.page_size
            if not 0 < pages <= match.key.pages:
                continue
            if self.cache.tree.prints(node)[-1] != match.key.prints(pages)[pages - 1]:
                self.report("C1", "match", f"a prefix of the key ({match.key.namespace})", node)

    def settled(self, match: Match, table: PageTable) -> None:
        self._keys[table] = match.key
        self._prints[table] = []

    def closed(self, table: PageTable) -> None:
        self._keys.pop(table, None)
        self._prints.pop(table, None)
        self._stop.pop(table, None)

    def forked(self, table: PageTable, node: Node) -> None:
        """The own state is that of the hit: of that prefix, and of no other boundary."""
        if self._states is None or table.state is None:
            self.report("C1", "fork.slot", f"a state of its own for {table.holder}", table.state)
            return
        seen = self._states.store.read([table.state])
        expected = [self._state_of(table, table.written)]
        if seen != expected:
            self._differ("fork.device_mamba", expected, seen, f"{table.holder} from {node}")

    def writing(self, pool: SlotPool, slots: list[int], prints: list[int]) -> None:
        if not slots:
            return
        _, component = self._places[pool]
        holdings = self.shadows.holdings
        table = holdings.table_of(pool, slots[0])
        if table is None or len(holdings.hands[pool].of(slots)) != 1:
            seen = holdings.hands[pool].of(slots)
            self.report("C1", f"write.foreign.{pool.name}", "slots of one request", seen)
            return
        key = self._keys.get(table)
        if key is None:
            return
        if component is Component.MAMBA:
            self._state_written(table, slots[0], prints[0])
            return
        start = table.written // self.page_size
        if component is Component.SWA:
            start = max(start, table.swa_from)
        stop = self._stop[table] = start + len(slots)
        own = table.full[start:stop]
        if component is Component.SWA:
            own = self.cache.residency.map.lookup(own)
        elif stop > key.pages:
            self._expected(table, key.pages)
            beyond = max(start, key.pages)
            self._prints[table][beyond:] = prints[beyond - start :]
        if own != slots:
            self.report("C1", f"write.place.{pool.name}", f"pages {start}..{stop}: {own}", slots)
        expected = self._expected(table, stop)[start:]
        if expected != prints:
            self._differ(f"write.print.{pool.name}", expected, prints, table.holder)

    def reading(self, table: PageTable, tokens: int, reading: Reading) -> None:
        expected = self._expected(table, tokens // self.page_size)
        if table.forked and tokens == table.written:
            state = self._state_of(table, tokens)
            if reading.state != state:
                self._differ("read.state", [state], [reading.state], table.holder)
        if reading.full != expected:
            self._differ("read.full", expected, reading.full, table.holder)
        if reading.swa and reading.swa != expected[reading.swa_start :]:
            self._differ("read.swa", expected[reading.swa_start :], reading.swa, table.holder)

    def running(self, copy: Copy) -> None:
        """The source, as the bytes are about to move."""
        for node, component, source, _ in copy.parts:
            pool = self.cache.pools[copy.source, component]
            seen, expected = pool.store.read(source), self.named(node, component)
            if seen != expected:
                self._differ(f"copy.{pool.name}", expected, seen, f"{copy} of {node}")

    def stored(self, node: Node, tier: Tier, component: Component) -> None:
        slots = node.slots[tier][component]
        if slots is None:
            return
        pool = self.cache.pools[tier, component]
        seen, expected = pool.store.read(slots), self.named(node, component)
        if seen != expected:
            self._differ(f"stored.{pool.name}", expected, seen, str(node))

    def audited(self) -> None:
        """Every page that a request has written and still owns, and every ready page of a node."""
        store = self.device_full.store
        for table in self._keys:
            if table.number not in self.cache.tables:
                continue
            pages = table.written // self.page_size
            own = table.full[table.shared : pages]
            expected = self._expected(table, pages)[table.shared :]
            if store.read(own) != expected:
                self._differ("own.device_full", expected, store.read(own), table.holder)
            self._own_state(table)
        for node in self.cache.tree.nodes():
            for tier, component in self.cache.pools:
                if node.inbound[tier][component] is None:
                    self.stored(node, tier, component)

    def at_rest(self) -> None:
        self.audited()

    def _state_written(self, table: PageTable, slot: int, value: int) -> None:
        """A boundary's state goes where it is to be kept, and is that of the last whole page."""
        if slot not in (table.state, table.kept):
            self.report("C1", "write.place.device_mamba", f"a state of {table.holder}", slot)
        elif slot == table.kept:
            expected = self._expected(table, self._stop.get(table, 0))[-1:]
            if expected != [value]:
                self._differ("write.kept", expected, [value], table.holder)

    def _own_state(self, table: PageTable) -> None:
        if self._states is None or table.state is None or not table.forked:
            return
        seen, expected = (
            self._states.store.read([table.state]),
            self._state_of(table, table.written),
        )
        if seen != [expected]:
            self._differ("own.device_mamba", [expected], seen, table.holder)

    def _state_of(self, table: PageTable, tokens: int) -> int:
        pages = tokens // self.page_size
        return state_print(self._expected(table, pages), tokens, self.page_size)

    def _expected(self, table: PageTable, pages: int) -> list[int]:
        """The fingerprints of the first pages of a request."""
        prints = self._prints[table]
        known = len(prints)
        if known < pages:
            key = self._keys[table]
            stop = min(pages, key.pages)
            prints += key.prints(stop)[known:stop]
        return prints[:pages]

    def _differ(self, signature: str, expected: list[int], seen: list[int], what: str) -> None:
        pairs = zip(expected, seen, strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a != b), -1)
        if at < 0:
            self.report("C1", signature, f"{len(expected)} slots for {what}", len(seen))
            return
        oracle = "C2" if seen[at] == UNWRITTEN else "C1"
        wanted = f"{expected[at]:016x} at page {at} for {what}"
        self.report(oracle, signature, wanted, f"{seen[at]:016x}")
