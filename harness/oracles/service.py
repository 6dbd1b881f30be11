"""M1, M2, M3: what is served is valid, what could be served is, and what was promised arrives."""

from collections import deque

from cache.config import Component, Tier
from cache.contract import Commit, LoadBack, LoadOutcome, Match, Reading
from cache.locks import NOT_HELD
from cache.pools import Owner, SlotPool
from cache.table import PageTable
from cache.transfers import Copy, CopyState
from cache.tree import Node
from harness.oracles import naive
from harness.oracles.base import Oracle

PROMISING = (LoadOutcome.ISSUED, LoadOutcome.JOINED, LoadOutcome.NOTHING)


RECENT = 4  # pages that a slide may have left behind: older ones were told of before


class Service(Oracle):
    """A match ends where the key does at most, exactly at the deepest servable and the deepest
    loadable node, worked out anew from slots and copies: deeper is unsound (M1), shallower
    incomplete (M2). A load-back brings what its anchor lacks, or has a reason not to (M2), and an
    admission gets what its load-back promised (M3). What attention sees covers every page and the
    whole window, all landed, and recurrent layers go on from a state of the request's own (M1). A
    commit puts every whole page into the tree with its window live, and the state that was kept for
    its end (M2). A slide leaves a request no page of its own outside the window (P2). Silent about
    a promise after a copy has failed."""

    name = "service"

    def begin(self) -> None:
        self._promises: deque[tuple[Match, LoadBack, int]] = deque(maxlen=64)
        self._failures = 0
        self._threshold = self.cache.config.load_back_threshold
        self._shared: dict[PageTable, int] = {}
        self._adopted = 0  # FULL pages that became the tree's since the last commit
        self._states = self.cache.pools.get((Tier.DEVICE, Component.MAMBA))
        # By table and slot: the fingerprint of the state that was put there last.
        self._held: dict[PageTable, dict[int, int]] = {}

    def moved(self, pool: SlotPool, slots: list[int], old: Owner, new: Owner) -> None:
        if pool is self.device_full and new is Owner.NODE and old is Owner.REQUEST:
            self._adopted += len(slots)

    # -- admission -------------------------------------------------------------------------------

    def matched(self, match: Match) -> None:
        key = match.key
        limit = max(0, key.tokens - 1) // self.page_size
        path, surplus = naive.walk(self.cache.tree.root, key, limit)
        device, loadable = naive.reach(path, self.needs)
        if not self.cache.config.hierarchical:
            loadable = device
        self._judge("match.device", path, device, match.device)
        self._judge("match.anchor", path, loadable, match.anchor)
        if surplus:
            self.report(
                "M2", "match.cut", "a node that ends where the key leaves its edge", surplus
            )
        pages = self._pages(path[:loadable])
        if loadable > device and list(match.load_pages) != pages:
            self.report("M3", "match.pages", f"{pages} pages to load", match.load_pages)

    def loaded_back(self, match: Match, result: LoadBack) -> None:
        path = naive.path_of(match.anchor)
        outcome = result.outcome
        stale = naive.reach(path, self.needs).loadable < len(path)
        if stale != (outcome is LoadOutcome.STALE):
            expected = f"{match.anchor} {'not loadable any more' if stale else 'loadable'}"
            self.report("M1" if stale else "M2", "load.stale", expected, outcome.name)
            return
        if stale:
            return
        lacks = naive.lacking(path, self.needs)
        flying = bool(naive.inbound(path, self.needs))
        if outcome in PROMISING:
            self._promises.append((match, result, self._failures))
            if lacks:
                self.report(
                    "M2", f"load.{outcome.name}", f"nothing lacking at {match.anchor}", lacks
                )
        if outcome is not LoadOutcome.ISSUED and not lacks and flying:
            if outcome is not LoadOutcome.JOINED:
                self.report("M2", "load.join", f"copies into {match.anchor} joined", outcome.name)
        elif outcome is LoadOutcome.JOINED and not flying:
            self.report("M3", "load.join", f"no copy into {match.anchor} to join", outcome.name)
        elif outcome is LoadOutcome.TOO_SHORT:
            if (gained := self._gained(path, set())) >= self._threshold:
                expected = f"{gained} tokens loaded back"
                self.report("M2", "load.threshold", expected, f"under {self._threshold}")
        elif outcome is LoadOutcome.ISSUED:
            self._brings(result, path)

    def settled(self, match: Match, table: PageTable) -> None:
        self._shared[table] = table.shared
        self._held[table] = {}
        path = naive.path_of(match.anchor)
        device = naive.reach(path, self.needs).device
        hit = path[:device]
        end = hit[-1].end if hit else 0
        if table.hit_tokens != end:
            oracle = "M1" if table.hit_tokens > end else "M2"
            self.report(oracle, "settle.hit", f"{end} tokens servable", table.hit_tokens)
        if table.shared * self.page_size != end or table.written != end:
            self.report("M1", "settle.table", f"{end} tokens in the table", table.written)
        if table.full != _full_slots(hit):
            self.report("M1", "settle.pages", "the tree's own slots", table.full)
        ready = sum(n.tokens for n in hit if n.inbound[0][0] is None)
        if table.device_tokens != ready:
            expected = f"{ready} tokens ready on the device"
            self.report("M3", "settle.counted", expected, table.device_tokens)
        waits = naive.inbound(hit, self.needs)
        if table.waits != waits:
            self.report("M1", "settle.waits", f"waits for {waits}", table.waits)
        self._kept(match, end)

    def acknowledged(self, copy: Copy) -> None:
        self._failures += copy.state is CopyState.FAILED

    # -- while it runs ---------------------------------------------------------------------------

    def reading(self, table: PageTable, tokens: int, reading: Reading) -> None:
        pages = tokens // self.page_size
        if len(reading.full) != pages:
            self.report("M1", "read.pages", f"{pages} pages of FULL", len(reading.full))
        for copy in table.waits:
            if copy.state is not CopyState.DONE:
                self.report("M1", "read.waits", f"{copy} landed before {table.holder} reads", copy)
        if self.stateful and table.full and not table.forked and len(table.full) > table.shared:
            seen = "none, or not what it begins with"
            self.report("M1", "read.state", f"a state of its own for {table.holder}", seen)
        if not self.windowed:
            return
        start = self.needed_from(tokens) // self.page_size
        if reading.swa_start > start or reading.swa_start + len(reading.swa) != pages:
            seen = f"{reading.swa_start} and {len(reading.swa)} more"
            self.report("M1", "read.window", f"pages {start} .. {pages - 1}", seen)
        window = self.cache.residency.map.lookup(table.full[start:pages])
        if window and min(window) < 0:
            at = start + next(i for i, slot in enumerate(window) if slot < 0)
            self.report("M1", "read.hole", f"page {at} in the window of {table.holder}", "no slot")

    def slid(self, table: PageTable, tokens: int) -> None:
        if not self.windowed:
            return
        whole = min(tokens, table.written) // self.page_size
        start = self.needed_from(whole * self.page_size) // self.page_size
        first = max(table.shared, start - RECENT)
        kept = self.cache.residency.map.lookup(table.full[first:start])
        if kept and max(kept) >= 0:
            at = first + next(i for i, slot in enumerate(kept) if slot >= 0)
            self.report("P2", "slide.kept", f"{table.holder} keeps pages from {start} on", at)
        lock = table.lock
        if lock is not None and start >= table.shared and lock.reach[Component.SWA] != NOT_HELD:
            expected = f"no window locked below page {start}"
            self.report("P2", "slide.locked", expected, f"{lock} from {lock.reach[Component.SWA]}")

    def committed(self, table: PageTable, result: Commit) -> None:
        before = self._shared.get(table, 0)
        self._shared[table] = table.shared
        adopted, self._adopted = self._adopted, 0
        if result.adopted != adopted:
            self.report("M2", "commit.adopted", f"{adopted} pages adopted", result.adopted)
        written = table.written // self.page_size
        if result.pages != table.shared or result.adopted + result.duplicates != (
            table.shared - before
        ):
            self.report("M2", "commit.counted", f"{table.shared - before} pages more", result)
        if not result.blocked and table.shared != written:
            self.report("M2", "commit.pages", f"{written} pages in the tree", table.shared)
        if result.blocked and not self._filling_below(table):
            self.report("M2", "commit.blocked", "a filling node in the way", "none")
        if not table.shared:
            return
        anchor = self.shadows.holdings.node_of(table.full[table.shared - 1])
        if anchor is None:
            return
        path = naive.path_of(anchor)
        if anchor.end != table.shared * self.page_size:
            self.report("M2", "commit.anchor", f"{table.shared} pages", anchor)
        if table.full[: table.shared] != _full_slots(path):
            self.report("M1", "commit.table", "the table points at the tree's slots", path)
        taken = (node for node in path if node.end > before * self.page_size)
        if filling := next((node for node in taken if any(node.inbound[Tier.DEVICE])), None):
            self.report("M1", "commit.filling", "an insert above what a copy fills", filling)
        if not result.blocked:
            self._window_live(path, before)
            self._state_live(table, anchor)

    def writing(self, pool: SlotPool, slots: list[int], prints: list[int]) -> None:
        if pool is self._states:
            table = self.shadows.holdings.table_of(pool, slots[0])
            if table in self._held:
                self._held[table][slots[0]] = prints[0]

    def forked(self, table: PageTable, node: Node) -> None:
        if table.state is not None:
            self._held[table][table.state] = self.named(node, Component.MAMBA)[0]

    def gave_way(self, table: PageTable) -> None:
        """What was kept is gone, for a request that could not begin."""
        held = self._held.get(table, {})
        self._held[table] = {s: print_ for s, print_ in held.items() if s == table.state}

    def closed(self, table: PageTable) -> None:
        self._shared.pop(table, None)
        self._held.pop(table, None)

    # -- helpers -----------------------------------------------------------------------------

    def _judge(self, signature: str, path: list[Node], expected: int, seen: Node) -> None:
        wanted = path[expected - 1] if expected else self.cache.tree.root
        if seen is wanted:
            return
        oracle = "M1" if seen not in path or seen.end > wanted.end else "M2"
        if not seen.end and wanted.end:
            oracle = "M2"
        self.report(oracle, signature, wanted, seen)

    def _pages(self, path: list[Node]) -> list[int]:
        slots = [0] * self.width
        for node, component in naive.lacking(path, self.needs):
            slots[component] += self.slots(component, node.tokens)
        return slots

    def _gained(self, path: list[Node], brought: set[naive.Piece]) -> int:
        """Tokens that become servable when `brought` lands."""
        device = naive.reach(path, self.needs, brought).device
        return (path[-1].end if path else 0) - (path[device - 1].end if device else 0)

    def _brings(self, result: LoadBack, path: list[Node]) -> None:
        """An issued load-back brings what the anchor's prefix needs and nothing else."""
        copy = result.copy
        if copy is None or copy.target is not Tier.DEVICE:
            self.report("M3", "load.copy", "a copy to the device", copy)
            return
        needed = self.needed_from(path[-1].end) if path else 0
        gained = self._gained(path, {(part.node, part.component) for part in copy.parts})
        if gained < self._threshold:
            self.report("M2", "load.below", f"{self._threshold} tokens gained at least", gained)
        for node, component, _, _ in copy.parts:
            outside = component is Component.SWA and node.end <= needed
            outside |= component is Component.MAMBA and node is not path[-1]
            if outside or node not in path:
                self.report("M3", "load.outside", f"what {path[-1]} needs", f"{node} {component}")

    def _kept(self, match: Match, end: int) -> None:
        for index, (promised, result, failures) in enumerate(self._promises):
            if promised is match:
                del self._promises[index]
                if failures == self._failures and end < match.anchor.end:
                    expected = f"{match.anchor.end} tokens after {result.outcome.name}"
                    self.report("M3", "promise", expected, end)
                return

    def _filling_below(self, table: PageTable) -> bool:
        node = self.cache.tree.root
        if table.shared:
            holder = self.shadows.holdings.node_of(table.full[table.shared - 1])
            if holder is None:
                return True
            node = holder
        return any(any(child.inbound[0]) for child in node.children.values())

    def _state_live(self, table: PageTable, anchor: Node) -> None:
        """Where the request had kept a state for its end, that is the tree's now; the one that it
        computes on with stays its own."""
        if self._states is None:
            return
        held, current = self._held.get(table, {}), (table.state, table.kept)
        self._held[table] = {slot: print_ for slot, print_ in held.items() if slot in current}
        wanted = self.named(anchor, Component.MAMBA)
        given = [print_ for slot, print_ in held.items() if slot != table.state]
        if wanted[0] in given and anchor.slots[Tier.DEVICE][Component.MAMBA] is None:
            self.report("M2", "commit.state", f"the state of {anchor} in the tree", "none")

    def _window_live(self, path: list[Node], before: int) -> None:
        if not self.windowed or path[-1].end <= before * self.page_size:
            return
        needed = self.needed_from(path[-1].end)
        for node in path:
            if node.end > needed and node.slots[0][1] is None:
                self.report("M2", "commit.window", f"a live window on {node}", "a tombstone")


def _full_slots(path: list[Node]) -> list[int]:
    slots: list[int] = []
    for node in path:
        slots += node.slots[0][0] or ()
    return slots
