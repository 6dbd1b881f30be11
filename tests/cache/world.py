"""A world of requests and copies around one small cache, one atomic step at a time.

Every step of every request is a move of its own, so anything may come between any two. After each
move `check` holds the cache against `audit`, against the page-by-page view of tests.cache.brute and
against what the live receipts promised. Chance is the caller's: a world only does what it is told.
"""

from dataclasses import dataclass
from enum import Enum

from cache.audit import audit
from cache.config import CacheConfig, Component, Tier
from cache.contract import Commit, Demand, LoadOutcome, Match
from cache.keys import Key
from cache.locks import Lock
from cache.table import PageTable
from cache.transfers import CopyState
from cache.unified import UnifiedCache
from tests.cache.brute import (
    Page,
    Residency,
    longest_loadable,
    longest_servable,
    must_load,
    pages_under,
    resident_pages,
)
from tests.cache.seen import Seen


class Stage(Enum):
    MATCH = "match"
    LOCK = "lock"
    LOAD_BACK = "load_back"
    SETTLE = "settle"
    UNLOCK = "unlock"
    RUN = "run"
    OVER = "over"


@dataclass(eq=False)
class Rider:
    """One request: its prompt is what it matches, `whole` what it ends up having computed."""

    name: str
    prompt: Key
    whole: Key
    priority: int = 0
    stage: Stage = Stage.MATCH
    match: Match | None = None
    admission: Lock | None = None
    table: PageTable | None = None

    @property
    def waiting(self) -> bool:
        return self.table is not None and any(copy.in_flight for copy in self.table.waits)

    @property
    def let_down(self) -> bool:
        table = self.table
        return table is not None and any(c.state is CopyState.FAILED for c in table.waits)


class World:
    def __init__(self, config: CacheConfig, seen: Seen | None = None) -> None:
        self.seen = seen or Seen()
        self.cache = UnifiedCache(config, self.seen)
        self.riders: list[Rider] = []
        self.committed: set[Page] = set()  # every prefix that a commit ever put into the tree
        self._arrivals = 0
        self._promised: dict[int, dict[tuple[Page, Tier, Component], int]] = {}

    # -- requests ----------------------------------------------------------------------------

    def arrive(self, prompt: Key, whole: Key, priority: int = 0) -> Rider:
        self._arrivals += 1
        rider = Rider(f"r{self._arrivals}", prompt, whole, priority)
        self.riders.append(rider)
        return rider

    def advance(self, rider: Rider) -> None:
        """The next step of an admission."""
        step = {
            Stage.MATCH: self._match,
            Stage.LOCK: self._lock,
            Stage.LOAD_BACK: self._load_back,
            Stage.SETTLE: self._settle,
            Stage.UNLOCK: self._unlock,
        }[rider.stage]
        step(rider)

    def glance(self, key: Key) -> Match:
        """A match, which may cut nodes, and which need not lead to anything."""
        match = self.cache.match(key)
        pages = resident_pages(self.cache)
        assert match.device_tokens == longest_servable(self.cache, pages, key)
        loadable = match.device_tokens
        if self.cache.config.hierarchical:
            loadable = longest_loadable(self.cache, pages, key)
        assert match.loadable_tokens == loadable
        least = must_load(self.cache, pages, key, loadable)
        assert all(a <= b for a, b in zip(least, match.load_pages, strict=True))
        return match

    def _match(self, rider: Rider) -> None:
        rider.match = self.glance(rider.prompt)
        rider.stage = Stage.LOCK

    def _lock(self, rider: Rider) -> None:
        assert rider.match is not None
        rider.admission = self.cache.lock(rider.match, f"{rider.name}.admission")
        rider.stage = Stage.MATCH if rider.admission is None else Stage.LOAD_BACK
        self.seen.note("anchor gone before the lock", rider.admission is None)

    def _load_back(self, rider: Rider) -> None:
        assert rider.match is not None
        assert rider.admission is not None
        result = self.cache.load_back(rider.match, rider.admission)
        assert (result.copy is not None) == (result.outcome is LoadOutcome.ISSUED)
        if result.copy is not None:
            assert sum(result.pages) == sum(len(part.target) for part in result.copy.parts)
            for component in self.cache.config.components:
                assert result.pages[component] == result.copy.pages(component)
        rider.stage = Stage.SETTLE

    def _settle(self, rider: Rider) -> None:
        assert rider.match is not None
        assert rider.admission is not None
        # A later request may have been here: deeper prefixes than the anchor are not asked about.
        asked = _cut(rider.prompt, rider.match.loadable_tokens)
        best = longest_servable(self.cache, resident_pages(self.cache), asked)
        rider.table = self.cache.settle(rider.match, rider.admission, rider.name, rider.priority)
        assert rider.table.hit_tokens == rider.table.written == best
        rider.stage = Stage.UNLOCK

    def _unlock(self, rider: Rider) -> None:
        assert rider.admission is not None
        self.cache.unlock(rider.admission)
        rider.admission = None
        rider.stage = Stage.RUN

    def extend(self, rider: Rider, tokens: int) -> None:
        table = _table(rider)
        before = len(table.full), table.state
        room = self.cache.extend(table, min(rider.whole.tokens, tokens))
        if not room.enough:
            assert (len(table.full), table.state) == before
            self._nothing_more_to_evict(room.short, room.pending)
        self.seen.note("no slot to keep a state in", self._stateful and table.kept is None)

    def write(self, rider: Rider, tokens: int) -> None:
        table = _table(rider)
        stop = min(rider.whole.tokens, table.capacity_tokens, tokens)
        if stop > table.written:
            self.cache.write(table, rider.whole.prints(), stop)

    def read(self, rider: Rider) -> None:
        """What attention sees are the key's own pages, each of them."""
        table = _table(rider)
        if rider.waiting:
            return
        reading = self.cache.read(table, table.written)
        pages = table.written // self.cache.config.page_size
        prints = rider.whole.prints()[:pages]
        assert reading.full == prints
        assert reading.swa == prints[reading.swa_start :]
        seen = (reading.full, reading.swa, [reading.state] if reading.state else [])
        beside = [c.owner for owner in Component for c in self.cache.config.companions_of(owner)]
        assert list(reading.companions) == [seen[owner] for owner in beside]
        if table.state is not None:
            whole = [0, *prints][-1] if table.written % self.cache.config.page_size == 0 else None
            assert reading.state == whole or (whole is None and reading.state)
        if Component.SWA in self.cache.config.components:
            oldest = max(0, table.written - self.cache.config.window)
            assert reading.swa_start <= oldest // self.cache.config.page_size

    def commit(self, rider: Rider) -> None:
        if not rider.waiting:
            table = _table(rider)
            stated = table.kept_at == self._whole(table)
            self._inserted(rider, self.cache.commit(table, rider.whole), stated=stated)

    def slide(self, rider: Rider) -> None:
        if not rider.waiting:
            self.cache.slide(_table(rider), _table(rider).written)

    def finish(self, rider: Rider) -> None:
        if not rider.waiting:
            table = _table(rider)
            stated = table.kept_at == self._whole(table)
            stated |= table.state is not None and table.written == self._whole(table)
            self._inserted(rider, self.cache.finish(table, rider.whole), stated=stated)
            self._over(rider)

    def abort(self, rider: Rider) -> None:
        """At any stage."""
        self.seen.note(f"aborted at {rider.stage.value}")
        self.seen.note("aborted with copies in flight", rider.waiting)
        if rider.table is not None:
            self.cache.abort(rider.table)
        if rider.admission is not None:
            self.cache.unlock(rider.admission)
        self._over(rider)

    def _whole(self, table: PageTable) -> int:
        return table.written // self.cache.config.page_size * self.cache.config.page_size

    def _inserted(self, rider: Rider, commit: Commit, *, stated: bool) -> None:
        """`stated` tells whether the request had a state for the end of what it inserts."""
        size = self.cache.config.page_size
        self.committed.update(
            (rider.whole.namespace, rider.whole.data[: page * size * 4])
            for page in range(1, commit.pages + 1)
        )
        table = _table(rider)
        if not commit.blocked:
            whole = table.written // size * size
            assert commit.pages * size == whole
            asked = _cut(rider.whole, whole)
            best = longest_servable(self.cache, resident_pages(self.cache), asked)
            if stated or not self._stateful:
                assert best == whole, f"{rider.name} committed what nobody can be served"
            self.seen.note("state donated", stated and self._stateful)

    def _over(self, rider: Rider) -> None:
        rider.stage, rider.table, rider.admission = Stage.OVER, None, None
        self.riders.remove(rider)

    # -- copies and pressure -----------------------------------------------------------------

    def run(self, tier: Tier) -> None:
        if copy := self.cache.transfers.next_to_run(tier):
            self.cache.transfers.run(copy)

    def break_off(self, tier: Tier) -> None:
        if copy := self.cache.transfers.next_to_run(tier):
            self.cache.transfers.break_off(copy)

    def acknowledge(self, tier: Tier) -> None:
        copy = self.cache.transfers.next_to_acknowledge(tier)
        if copy is None:
            return
        should_land = copy.state is CopyState.RAN and not copy.doomed
        for number in self._promised:
            if not should_land and number == copy.lock.number:
                self._promised[number].clear()
        self.cache.acknowledge(copy)
        assert copy.state is (CopyState.DONE if should_land else CopyState.FAILED)
        assert not copy.lock.live
        for rider in [r for r in self.riders if r.let_down]:
            self.seen.note("request let down by a failed copy")
            self.abort(rider)

    def make_room(self, *wanted: int) -> None:
        """Per component; what is left out is not wanted."""
        demand = Demand(*wanted)
        free = {c: self._free(c) for c in self.cache.config.components}
        dropped = self.seen.counts["demoted"], self.seen.counts["dropped from the device"]
        room = self.cache.make_room(demand)
        if all(slots >= demand[component] for component, slots in free.items()):
            now = self.seen.counts["demoted"], self.seen.counts["dropped from the device"]
            assert now == dropped, "what was free already cost somebody's pages"
        for component in free:
            assert room.short[component] == max(0, demand[component] - self._free(component))
        self._nothing_more_to_evict(room.short, room.pending)

    def flush(self) -> None:
        busy = len(self.cache.locks) or len(self.cache.transfers) or self.cache.tables
        before = resident_pages(self.cache)
        assert self.cache.flush() == (not busy)
        after = resident_pages(self.cache)
        assert after == (before if busy else {})
        self.seen.note("flush refused", bool(busy))

    def _nothing_more_to_evict(self, short: tuple[int, ...], pending: tuple[int, ...]) -> None:
        """What is short and not on its way out is short because everything left is held."""
        for component in self.cache.config.components:
            if short[component] > pending[component]:
                assert self.cache.available(component) == self._free(component)

    @property
    def _stateful(self) -> bool:
        return Component.MAMBA in self.cache.config.components

    def _free(self, component: Component) -> int:
        return self.cache.pool(component, Tier.DEVICE).free_slots

    # -- what must hold ----------------------------------------------------------------------

    def check(self) -> None:
        assert audit(self.cache) == []
        pages = resident_pages(self.cache)
        assert set(pages) <= self.committed, "the tree knows a prefix that nobody committed"
        self._promises_kept(pages)
        self._leaving_has_a_copy()

    def _promises_kept(self, pages: Residency) -> None:
        """What was there under a live receipt is still there, in the same slots."""
        live = {lock.number: lock for lock in self.cache.locks.live()}
        self._promised = {n: p for n, p in self._promised.items() if n in live}
        for number, lock in live.items():
            promised = self._promised.setdefault(number, {})
            now = self._covered(lock, pages)
            for what, slot in promised.items():
                if now.get(what) is not None or self._still_covered(lock, what):
                    assert now.get(what) == slot, f"{lock} lost {what}"
            self._promised[number] = now

    def _still_covered(self, lock: Lock, what: tuple[Page, Tier, Component]) -> bool:
        (_, prefix), _, component = what
        reach = lock.reach[component]
        return reach >= 0 and reach * 4 < len(prefix)

    def _covered(self, lock: Lock, pages: Residency) -> dict[tuple[Page, Tier, Component], int]:
        found = {}
        for node in lock.anchor.ancestors():
            for page in pages_under(self.cache, node):
                for (tier, component), value in pages[page].items():
                    if tier in lock.tiers and lock.covers(node, component) and value.ready:
                        found[page, tier, component] = value.slot
        return found

    def _leaving_has_a_copy(self) -> None:
        """A node that is said to leave waits for a backup that is still under way."""
        residency = self.cache.residency
        leaving = {n.number for n in self.cache.tree.nodes() if n.leaving}
        assert set(residency.leaving) == leaving
        for node in residency.leaving.values():
            coming = [copy for copy in node.inbound[Tier.HOST] if copy is not None]
            assert coming, f"{node} waits for nothing"

    def drain(self) -> None:
        """Everything ends; then nothing is locked, and a flush leaves every pool full."""
        for rider in list(self.riders):
            self.abort(rider)
        for tier in Tier:
            while self.cache.transfers.queues[tier]:
                self.run(tier)
                self.acknowledge(tier)
                self.check()
        assert len(self.cache.locks) == 0
        for place, pages in self.cache.residency.locked_pages.items():
            assert pages == 0, place
        assert self.cache.flush()
        assert all(pool.used_slots == 0 for pool in self.cache.pools.values())
        assert not self.cache.residency.leaving
        self.check()


def _cut(key: Key, tokens: int) -> Key:
    """That many tokens of a key and one more, so that they may all be hit."""
    return Key(key.data[: tokens * 4] + b"more", key.page_bytes // 4, key.namespace)


def _table(rider: Rider) -> PageTable:
    assert rider.table is not None
    return rider.table
