"""D1, M2 on the way to storage: what is sent is whole, heads go first, and what is due is sent."""

from collections.abc import Iterable

from cache.config import Component, Tier
from cache.contract import Commit, Match
from cache.locks import Lock
from cache.packing import unpack
from cache.pools import Owner, SlotPool
from cache.storage.contract import ROOT, Page, Status, Stored
from cache.storage_moves import Persist, Prefetch, Wanted
from cache.table import PageTable
from cache.transfers import Copy, CopyState
from cache.tree import Node
from harness.oracles.base import Oracle

_NEVER = Stored(0, Status.FAILED)  # what storage has said of a persist that it was never asked for


class Persists(Oracle):
    """From issue to acknowledgement no source slot of a persist is released or written, and its
    lock over the path is held (D1, L1); persists run and end in order, each once (D2). What is sent
    is what its node stands for (C1), and no page before the page ahead of it has been sent or has
    come from there (M2). What a node is believed to have in storage is what replies have said, for
    both halves of a node that was split; whatever is on the host and due is sent, unless half of
    the host is on its way already (M2). Silent about what storage does with it."""

    name = "persists"

    def applies(self) -> bool:
        return self.cache.storage is not None

    def begin(self) -> None:
        storage = self.cache.storage
        self._queue = storage.persists.queue if storage is not None else ()
        self._strands = storage.strands if storage is not None else ()
        self._flying: list[Persist] = []  # in order of issue
        self._busy: dict[SlotPool, dict[int, list[Persist]]] = {}
        for (tier, _), pool in self.cache.pools.items():
            if tier is Tier.HOST:
                self._busy[pool] = {}
        self._hosts = {c: pool for (tier, c), pool in self.cache.pools.items() if tier is Tier.HOST}
        self._most_pages = max(1, self._hosts[Component.FULL].capacity // 2)
        self._sent = {ROOT}  # names of pages that storage was handed, or had
        self._replies: dict[int, Stored] = {}  # by the number of the persist
        self._kept: dict[Node, int] = {}  # what replies have said, a bit a strand
        self._going: dict[Node, int] = {}  # sent and not acknowledged
        self._changed: dict[Node, None] = {}  # within the operation: is it believed rightly?
        self._due: dict[Node, None] = {}  # within the operation: is it sent?

    # -- a persist -------------------------------------------------------------------------------

    def persist_issued(self, persist: Persist) -> None:
        self._flying.append(persist)
        for node, strand, slots in persist.sources:
            component, busy = strand.component, self._busy[self._hosts[strand.component]]
            if self._going.get(node, 0) >> strand.number & 1:
                self.report("D2", "persist.twice", f"{node} sent once", persist)
            for slot in slots:
                busy.setdefault(slot, []).append(persist)
            self._going[node] = self._going.get(node, 0) | 1 << strand.number
            if not node.ready(Tier.HOST, component) or node.slots[1][component] != slots:
                self.report("D1", "persist.source", f"ready host slots of {node}", slots)
            lock = persist.lock
            if not lock.live or Tier.HOST not in lock.tiers or not lock.covers(node, component):
                what = f"{node} {component.name} covered on the host"
                self.report("L1", f"cover.persist.{component.name.lower()}", what, lock)

    def persisting(self, persist: Persist, pages: list[Page]) -> None:
        for page in pages:
            if page.head not in self._sent:
                self.report("M2", "persist.tail", f"the head of {page.key.hex()} first", persist)
            self._sent.add(page.key)
        first = next((p for p in self._flying if p.outstanding), None)
        if first is not persist:
            self.report("D2", "persist.order", f"{first} first", persist)
        self._whole(persist, pages)

    def heeded(self, move: Persist | Prefetch) -> None:
        """What ranks have agreed on is no better than what this one's storage said."""
        if not isinstance(move, Persist):
            return
        said = self._replies.get(move.number, _NEVER)
        if move.stored > said.pages or (move.status is Status.OK and said.status is not Status.OK):
            self.report("R1", "persist.heeded", f"no more than {said}", f"{move.stored} stored")
        self.replied(move)

    def replied(self, move: Persist | Prefetch) -> None:
        if isinstance(move, Persist):
            self._replies[move.number] = Stored(move.stored, move.status)

    def persisted(self, persist: Persist) -> None:
        if not self._flying or persist is not self._flying[0]:
            self.report("D2", "persist.acknowledged", f"{self._flying[:1]} first", persist)
        if persist in self._flying:
            self._flying.remove(persist)
        done = self._replies.pop(persist.number, _NEVER)
        left = done.pages
        for node, strand, slots in persist.sources:
            self._spared(self._busy[self._hosts[strand.component]], slots, persist)
            self._going[node] = self._going.get(node, 0) & ~(1 << strand.number)
            if left >= len(slots):
                self._kept[node] = self._kept.get(node, 0) | 1 << strand.number
                if done.status is Status.OK:  # else it is tried again when it is used
                    self._due.update(dict.fromkeys(node.children.values()))
            left -= len(slots)
            self._changed[node] = None
        if done.status is Status.ABSENT:
            for node in persist.lock.anchor.ancestors():
                self._kept[node] = 0
                self._changed[node] = None
        if (persist.state is CopyState.DONE) != (done.status is Status.OK):
            self.report("D2", "persist.state", f"as storage said: {done.status.value}", persist)
        if persist.lock.live:
            self.report("L1", "kept.persist", f"{persist.lock} handed back", "still held")
        self.pending[self] = None

    # -- what may not happen to it ---------------------------------------------------------------

    def releasing(self, pool: SlotPool, slots: list[int], owner: Owner) -> None:
        busy = self._busy.get(pool)
        if busy and not busy.keys().isdisjoint(slots):
            persist = next(busy[slot][0] for slot in slots if slot in busy)
            self.report("D1", f"persist.release.{pool.name}", f"kept for {persist}", slots)

    def landing(
        self, prefetch: Prefetch, wanted: Wanted, slot: int, contents: tuple[int, ...]
    ) -> None:
        pool = self._hosts[wanted.component]
        for persist in self._busy[pool].get(slot, ()):
            self.report("D1", f"persist.write.{pool.name}", f"kept for {persist}", prefetch)

    def unlocked(self, lock: Lock) -> None:
        for persist in self._flying:
            if persist.lock is lock and persist in self._queue:
                self.report("L1", "early.persist", f"{lock} held until {persist} is over", "")

    # -- what is believed ------------------------------------------------------------------------

    def grafted(self, prefetch: Prefetch, nodes: list[Node]) -> None:
        storage = self.cache.storage
        assert storage is not None
        for print_ in prefetch.key.prints()[: prefetch.grafted_end // self.page_size]:
            self._sent.add(storage.name_of(Component.FULL, print_))

    def filling(self, node: Node, tier: Tier, component: Component) -> None:
        """Pages that came from storage are there."""
        if tier is Tier.HOST and isinstance(node.inbound[tier][component], Prefetch):
            self._kept[node] = self._kept.get(node, 0) | self._bits(component)
            self._changed[node] = self.pending[self] = None

    def split(self, upper: Node, lower: Node) -> None:
        """Both halves have what the whole had, but for the state of its end."""
        paged = ~self._bits(Component.MAMBA)
        self._kept[upper] = self._kept.get(lower, 0) & paged
        self._going[upper] = self._going.get(lower, 0) & paged
        self._changed[upper] = self._changed[lower] = self.pending[self] = None

    def removed(self, node: Node) -> None:
        self._kept.pop(node, None)
        self._due.pop(node, None)
        if self._going.pop(node, 0):
            self.report("D1", "persist.removed", f"{node} kept while it is sent", "gone")

    # -- what is due -----------------------------------------------------------------------------

    def acknowledged(self, copy: Copy) -> None:
        if copy.target is Tier.HOST and copy.state is CopyState.DONE:
            self._look_at(part.node for part in copy.parts)

    def settled(self, match: Match, table: PageTable) -> None:
        self._look_at(self.shadows.shades.counted)

    def committed(self, table: PageTable, result: Commit) -> None:
        self._look_at(self.shadows.shades.counted)

    def review(self) -> None:
        """Whatever changed is believed rightly, and is on its way if it should be."""
        changed, self._changed = self._changed, {}
        due, self._due = self._due, {}
        for node in changed:
            if node.parent is not None:
                self._believed(node)
        for node in due:
            if node.parent is not None:
                self._unsent(node)

    def audited(self) -> None:
        for node in self.cache.tree.nodes():
            self._believed(node)

    def at_rest(self) -> None:
        for persist in self._flying:
            self.report("D2", "persist.kept", "nothing on its way at rest", persist)

    # -- helpers -----------------------------------------------------------------------------

    def _believed(self, node: Node) -> None:
        kept = self._kept.get(node, 0)
        if node.persisted != kept:
            self.report("M2", "persist.believed", f"{kept:b} of {node}", f"{node.persisted:b}")
            self._kept[node] = node.persisted

    def _whole(self, persist: Persist, pages: list[Page]) -> None:
        """Every page of every source, under the name and with the content of its node."""
        storage = self.cache.storage
        assert storage is not None
        left = {page.key: page.payload for page in pages}
        for node, strand, slots in persist.sources:
            prints = self.named(node, strand.component)
            if len(prints) != len(slots):
                self.report("D2", "persist.pages", f"{len(prints)} slots of {node}", slots)
            for print_ in prints:
                payload = left.pop(storage.name_of(strand.number, print_), None)
                if payload is None:
                    self.report("M2", "persist.whole", f"{print_:016x} of {node} sent", persist)
                    continue
                contents = unpack(strand.number, payload, storage.share, len(strand.parts))
                if contents != (print_,) * len(strand.parts):
                    seen = ", ".join(f"{content:016x}" for content in contents)
                    self.report("C1", f"persist.{strand.name}", f"{print_:016x} of {node}", seen)
        if left:
            self.report("M2", "persist.strangers", f"pages of {persist}", f"{len(left)} others")

    def _look_at(self, nodes: Iterable[Node]) -> None:
        self._due.update(dict.fromkeys(nodes))
        self.pending[self] = None

    def _unsent(self, node: Node) -> None:
        """Ready on the host, its head sent or there, and nobody sends it."""
        known = self._known(node)
        lacking = [
            strand.number
            for strand in self._strands
            if not known >> strand.number & 1 and node.ready(Tier.HOST, strand.component)
        ]
        parent = node.parent
        assert parent is not None
        if Component.FULL in lacking:
            there = parent.parent is None or self._known(parent) & 1
        else:  # of all else the head is FULL of the same page
            there = known & 1
        if not lacking or not there:
            return
        pages = node.tokens // self.page_size
        under_way = sum(persist.pages for persist in self._flying)
        if not self._flying or under_way + pages <= self._most_pages:
            self.report("M2", "persist.missed", f"{node} sent to storage", "not even queued")

    def _bits(self, component: Component) -> int:
        """Of a component and its companions apart."""
        return sum(1 << s.number for s in self._strands if s.component is component)

    def _spared(self, busy: dict[int, list[Persist]], slots: list[int], persist: Persist) -> None:
        """Nothing is sent from `slots` for `persist` any more."""
        for slot in slots:
            flying = busy.get(slot, [])
            if persist in flying:
                flying.remove(persist)
            if not flying:
                busy.pop(slot, None)

    def _known(self, node: Node) -> int:
        """What of a node is in storage or on its way, a bit a strand."""
        return self._kept.get(node, 0) | self._going.get(node, 0)
