"""L1, L2, L3: a count is the number of live receipts that cover the node, and nothing else."""

from cache.config import Component, Tier
from cache.contract import Commit, LoadBack, Match, Reading, Room
from cache.locks import NOT_HELD, Lock
from cache.table import PageTable
from cache.transfers import Copy
from cache.tree import Node
from harness.oracles.base import Oracle, place_name

Counts = tuple[list[int], list[int]]  # by tier and component
BOTH = (Tier.DEVICE, Tier.HOST)


class Receipt:
    """A lock as it was when it was given out."""

    __slots__ = ("anchor", "holder", "lock", "reach", "tiers")

    def __init__(self, lock: Lock) -> None:
        self.lock = lock
        self.anchor = lock.anchor
        self.reach = list(lock.reach)
        self.tiers = lock.tiers
        self.holder = lock.holder

    def covers(self, node: Node, component: int) -> bool:
        """For a node on the anchor's path."""
        reach = self.reach[component]
        return reach != NOT_HELD and reach < node.end <= self.anchor.end


class Locks(Oracle):
    """Keeps its own count for every node, component and tier from the receipts alone and compares
    the whole path to the root whenever a receipt is given out, handed back or narrowed: so a
    release that takes more than its own is named at once, with who lost (L1, after a release L2).
    Receipts cover what they are for: an admission both tiers, a request its prefix and no window
    but its own (in whole nodes) and the state that it begins with until it has its own, a copy its
    source, its target and the path above. Nothing ready goes while it is covered. At rest nothing
    is held (L3)."""

    name = "locks"

    def begin(self) -> None:
        self._counts: dict[Node, Counts] = {}
        self._cuts: list[Node] = []  # halves of nodes that were split within the operation
        self._live: dict[int, Receipt] = {}
        self._anchored: dict[Node, list[Receipt]] = {}
        self._requests: dict[PageTable, Lock | None] = {}
        self._tables: dict[int, PageTable] = {}  # by the number of the request lock
        self._copies: dict[int, Copy] = {}  # by the number of the transfer lock
        self._tiers = BOTH if self.cache.config.hierarchical else (Tier.DEVICE,)

    # -- counts --------------------------------------------------------------------------------

    def locked(self, lock: Lock) -> None:
        receipt = Receipt(lock)
        if lock.number in self._live:
            self.report("L1", "receipt.number", f"a new number, not {lock.number}", lock)
        self._live[lock.number] = receipt
        self._anchored.setdefault(lock.anchor, []).append(receipt)
        self._count(receipt, receipt.reach, +1, "L1", "acquire")
        if self.stateful and lock.holder != "backup" and lock.anchor.end:
            reach = lock.reach[Component.MAMBA]
            if reach not in (NOT_HELD, lock.anchor.start):
                self.report("L1", "acquire.state", f"{lock} holds one state at most", reach)

    def unlocked(self, lock: Lock) -> None:
        receipt = self._live.pop(lock.number, None)
        if receipt is None:
            self.report("L1", "release.twice", "a live receipt", lock)
            return
        here = self._anchored[receipt.anchor]
        here.remove(receipt)
        if not here:
            del self._anchored[receipt.anchor]
        self._count(receipt, receipt.reach, -1, "L2", "release")
        copy = self._copies.pop(lock.number, None)
        if copy is not None and copy.in_flight:
            self.report("L1", f"early.{copy.kind}", f"{lock} held until {copy} is acknowledged", "")

    def narrowed(self, lock: Lock, component: Component) -> None:
        receipt = self._live.get(lock.number)
        if receipt is None:
            self.report("L1", "narrow.dead", "a live receipt", lock)
            return
        given = [NOT_HELD] * len(receipt.reach)
        given[component] = receipt.reach[component]
        receipt.reach[component] = NOT_HELD
        self._count(receipt, given, -1, "L2", "narrow")
        table = self._tables.get(lock.number)
        if table is not None and component is Component.MAMBA:
            if not table.forked or table.state is None:
                seen = "given back before it was copied"
                self.report("L1", "narrow.state", f"{lock} holds the state of its hit", seen)
        elif table is not None:
            whole = table.written // self.page_size * self.page_size
            if self.needed_from(whole) < table.shared * self.page_size:
                seen = f"given back at {table.written} tokens"
                self.report("L1", "narrow.early", f"{lock} holds its window", seen)

    def split(self, upper: Node, lower: Node) -> None:
        counts = self._counts.get(lower)
        if counts is not None:
            self._counts[upper] = (list(counts[0]), list(counts[1]))
        self._cuts += (upper, lower)
        self.pending[self] = None

    def review(self) -> None:
        """After a split both halves are held by the same receipts."""
        cuts, self._cuts = self._cuts, []
        for node in cuts:
            if node.parent is not None:
                self._compare(node, None, "L1", "split")

    def removed(self, node: Node) -> None:
        counts = self._counts.pop(node, None)
        if counts is not None and any(map(any, counts)):
            self.report("L1", "removed", f"{node} in the tree while it is held", self._who(node))

    def _count(
        self, receipt: Receipt, reach: list[int], step: int, oracle: str, signature: str
    ) -> None:
        """Count along the receipt, compare along the whole path."""
        counts_of, tiers = self._counts, receipt.tiers
        node = receipt.anchor
        while node.parent is not None:
            counts = counts_of.get(node)
            if counts is None:
                counts = counts_of[node] = self._nothing()
            end = node.end
            for component, position in enumerate(reach):
                if position != NOT_HELD and end > position:
                    for tier in tiers:
                        counts[tier][component] += step
            if node.locks != counts:
                self._compare(node, receipt, oracle, signature)
            node = node.parent

    def _compare(self, node: Node, receipt: Receipt | None, oracle: str, signature: str) -> None:
        counts = self._counts.get(node)
        if counts is None:
            counts = self._counts[node] = self._nothing()
        if node.locks == counts:
            return
        by = f" after {signature} of {receipt.lock}" if receipt is not None else ""
        for tier in BOTH:
            for component in self.components:
                expected, seen = counts[tier][component], node.locks[tier][component]
                if expected != seen:
                    where = place_name(tier, component)
                    wanted = f"{expected} on {node}: {self._who(node, tier, component)}"
                    self.report(oracle, f"{signature}.{where}", wanted, f"{seen}{by}")
            counts[tier][:] = node.locks[tier]

    def _who(self, node: Node, tier: Tier | None = None, component: Component | None = None) -> str:
        """The holders that cover a node."""
        holders = [
            f"{r.holder} (lock {r.lock.number})"
            for r in self._live.values()
            if (tier is None or tier in r.tiers)
            and node in r.anchor.ancestors()
            and any(r.covers(node, c) for c in self.components if component in (None, c))
        ]
        return ", ".join(holders) or "nobody"

    def _nothing(self) -> Counts:
        return ([0] * self.width, [0] * self.width)

    # -- what receipts are for -------------------------------------------------------------------

    def loaded_back(self, match: Match, result: LoadBack) -> None:
        if match.anchor.parent is None:
            return
        for receipt in self._anchored.get(match.anchor, ()):
            if (
                self._covers_prefix(receipt, self._tiers)
                and self._covers_state(receipt)
                and receipt.lock.number not in self._copies
            ):
                return
        expected = f"an admission lock over the prefix and window of {match.anchor}"
        self.report("L1", "cover.admission", expected, self._who(match.anchor))

    def settled(self, match: Match, table: PageTable) -> None:
        self._requests[table] = None
        self._adopt(table)

    def committed(self, table: PageTable, result: Commit) -> None:
        if table.lock is not self._requests.get(table):
            self._adopt(table)

    def relocked(self, table: PageTable) -> None:
        self._adopt(table)

    def closed(self, table: PageTable) -> None:
        lock = self._requests.pop(table, None)
        if lock is not None:
            self._tables.pop(lock.number, None)
            if lock.number in self._live:
                self.report("L3", "request.kept", f"{lock} handed back", "still held")

    def reading(self, table: PageTable, tokens: int, reading: Reading) -> None:
        self._still(table)

    def extended(self, table: PageTable, room: Room) -> None:
        self._still(table)

    def issued(self, copy: Copy) -> None:
        receipt = self._live.get(copy.lock.number)
        if receipt is None:
            self.report("L1", f"cover.{copy.kind}", "a live transfer lock", copy.lock)
            return
        self._copies[copy.lock.number] = copy
        bottom = receipt.anchor.end
        for node, component, _, _ in copy.parts:
            if not receipt.covers(node, component) or len(receipt.tiers) < len(BOTH):
                what = f"{node} {component.name} covered on both tiers"
                self.report("L1", f"cover.{copy.kind}.{component.name.lower()}", what, copy.lock)
        if bottom and receipt.reach[Component.FULL] != 0:
            self.report("L1", f"cover.{copy.kind}.path", "the whole path covered", copy.lock)

    def acknowledged(self, copy: Copy) -> None:
        if copy.lock.number in self._live:
            self.report("L1", f"kept.{copy.kind}", f"{copy.lock} handed back", "still held")

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        counts = self._counts.get(node)
        if counts is None:
            return
        held = counts[tier][component]
        last = tier is Tier.HOST and component is Component.FULL
        if last and node.slots[Tier.DEVICE][Component.FULL] is None:
            held += counts[Tier.DEVICE][component]
        if held:
            where = place_name(tier, component)
            who = self._who(node, None, component)
            self.report("L1", f"dropped.{where}", f"{node} kept for {who}", "given up")

    def audited(self) -> None:
        if len(self.cache.locks) != len(self._live):
            self.report("L1", "ledger", f"{len(self._live)} live receipts", len(self.cache.locks))
        for node in self.cache.tree.nodes():
            self._compare(node, None, "L1", "audit")

    def at_rest(self) -> None:
        self.audited()
        for receipt in self._live.values():
            self.report("L3", "held", "nothing held at rest", receipt.lock)
        for node in self.cache.tree.nodes():
            if any(map(any, node.locks)):
                self.report("L3", "count", f"no count on {node} at rest", node.locks)
        for table in self.cache.tables.values():
            self.report("L3", "table", "no table open at rest", table.holder)

    def _adopt(self, table: PageTable) -> None:
        """The table has a new request lock; the old one must be back."""
        old, new = self._requests.get(table), table.lock
        self._requests[table] = new
        if old is not None:
            self._tables.pop(old.number, None)
            if old.number in self._live:
                self.report("L3", "request.kept", f"{old} handed back", "still held")
        if new is None:
            self.report("L1", "cover.request", f"a request lock for {table.holder}", "none")
            return
        self._tables[new.number] = table
        receipt = self._still(table)
        if receipt is None:
            return
        if not self._covers_prefix(receipt, (Tier.DEVICE,)):
            self.report("L1", "cover.request", "the prefix and its window covered", new)
            return
        if self.stateful and self._covers_state(receipt) == table.forked and receipt.anchor.end:
            what = "no state but its own" if table.forked else "the state of its hit"
            self.report("L1", "cover.state", f"{new} holds {what}", receipt.reach)
        if self.windowed and receipt.anchor.end:
            needed = self.needed_from(receipt.anchor.end)
            first = next(node for node in new.anchor.ancestors() if node.start <= needed)
            if receipt.reach[Component.SWA] < first.start:
                seen = f"from {receipt.reach[Component.SWA]}"
                self.report("L1", "cover.more", f"{new} holds its window from {first.start}", seen)

    def _still(self, table: PageTable) -> Receipt | None:
        """A table that is used has a live lock where its shared pages end."""
        lock = table.lock
        receipt = None if lock is None else self._live.get(lock.number)
        if receipt is None:
            self.report("L1", "request.dead", f"a live lock for {table.holder}", lock)
        elif receipt.anchor.end != table.shared * self.page_size:
            expected = f"a lock at {table.shared * self.page_size} tokens"
            self.report("L1", "request.anchor", expected, lock)
        return receipt

    def _covers_state(self, receipt: Receipt) -> bool:
        """The anchor's, and no other."""
        reach, anchor = receipt.reach, receipt.anchor
        if not self.stateful or not anchor.end:
            return True
        return 0 <= reach[Component.MAMBA] < anchor.end

    def _covers_prefix(self, receipt: Receipt, tiers: tuple[Tier, ...]) -> bool:
        end = receipt.anchor.end
        if not end:
            return True
        reach = receipt.reach
        if reach[Component.FULL] != 0 or any(tier not in receipt.tiers for tier in tiers):
            return False
        return not self.windowed or 0 <= reach[Component.SWA] <= self.needed_from(end)
