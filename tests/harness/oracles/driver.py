"""Random operations on a small cache under the eyes of all oracles; the seed decides everything.

Admissions run step by step, so that anything may come between two of their steps.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cache.config import CacheConfig, Component, EvictionOrder, PoolPages, Tier, WritePolicy
from cache.contract import Demand, LoadBack, LoadOutcome, Match, Room
from cache.keys import Key
from cache.locks import Lock
from cache.observer import Observer
from cache.stores import StoreMaker, fingerprints
from cache.table import PageTable
from cache.transfers import Copy, CopyState
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.explore.prng import SplitMix
from harness.oracles import Violation, Watch, default_oracles, violation_of

BASE_TOKENS = 64
RUNNING = 5
Tamper = Callable[[UnifiedCache], None]


def config_of(chance: SplitMix) -> CacheConfig:
    """Small and nasty: any policy, order and ratio, pages of 1 to 4, windows below and above."""
    page = chance.choice((1, 1, 2, 3, 4))
    device = 8 + chance.below(33)
    window = chance.choice((1, 2, 3, 5, 8, 12)) if chance.unit() < 0.7 else 0
    ratio = chance.choice((0.0, 0.25, 0.5, 1.0, 2.0))
    device = max(device, -(-window // page))
    least = min(device, -(-window // page) + 3)
    swa = least + chance.below(device - least + 1)
    return CacheConfig(
        page_size=page,
        full=PoolPages(device, _host(device, ratio)),
        swa=PoolPages(swa, _host(swa, ratio)) if window else None,
        window=window,
        write_policy=chance.choice(tuple(WritePolicy)),
        device_eviction=chance.choice(tuple(EvictionOrder)),
        host_eviction=chance.choice(tuple(EvictionOrder)),
        load_back_threshold=page * chance.choice((0, 0, 0, 2)),
    )


def with_states(config: CacheConfig, seed: int) -> CacheConfig:
    """The same with recurrent states, few or some."""
    chance = SplitMix(seed * 4801 + 5)
    device = 2 + chance.below(7)
    host = 1 + chance.below(2 * device) if config.hierarchical else 0
    return replace(config, mamba=PoolPages(device, host))


def _host(device: int, ratio: float) -> int:
    return max(1, int(device * ratio)) if ratio else 0


@dataclass(eq=False)
class Running:
    key: Key
    name: str
    match: Match | None = None
    lock: Lock | None = None
    loaded: bool = False
    table: PageTable | None = None


class Stopped(Exception):
    """A violation was found; what the cache does next says nothing."""


class Driven(NamedTuple):
    violations: list[Violation]
    counts: Counter[str]

    @property
    def oracles(self) -> list[str]:
        return [v.oracle for v in self.violations]


class Seen(Observer):
    """Counts what a run came into, to prove that a silent one was not an empty one."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.windows: list[Node] = []

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        self.counts[f"dropped_{tier.name}_{component.name}"] += 1
        if tier is Tier.DEVICE and component is Component.SWA:
            self.windows.append(node)
        elif tier is Tier.DEVICE and component is Component.MAMBA:
            self.counts["state_tombstone"] += node.slots[0][0] is not None

    def made_room(self, demand: Demand, room: Room) -> None:
        gone, self.windows = self.windows, []
        self.counts["tombstone"] += sum(n.slots[0][0] is not None for n in gone)

    def filling(self, node: Node, tier: Tier, component: Component) -> None:
        if tier is Tier.DEVICE and component is Component.SWA:
            self.counts["revived_under_lock"] += node.locks[tier][component] > 1
        self.counts["state_loaded"] += tier is Tier.DEVICE and component is Component.MAMBA

    def split(self, upper: Node, lower: Node) -> None:
        self.counts["split_in_flight"] += any(c is not None for t in Tier for c in lower.inbound[t])

    def narrowed(self, lock: Lock, component: Component) -> None:
        self.counts["narrowed"] += component is Component.SWA

    def forked(self, table: PageTable, node: Node) -> None:
        self.counts["forked"] += 1

    def gave_way(self, table: PageTable) -> None:
        self.counts["gave_way"] += 1

    def acknowledged(self, copy: Copy) -> None:
        doomed = copy.doomed and copy.state is CopyState.FAILED
        self.counts[f"{copy.kind}_{copy.state.value}"] += 1
        self.counts["doomed"] += doomed

    def loaded_back(self, match: Match, result: LoadBack) -> None:
        self.counts[result.outcome.name] += 1


@dataclass(eq=False)
class Driver:
    """`tamper` puts a defect into the built cache; a run stops at its first violation."""

    seed: int
    tamper: Tamper | None = None
    without: Collection[str] = ()
    mode: str = "every"
    audit_every: int = 0
    failures: float = 0.12
    config: CacheConfig | None = None
    stateful: bool = False
    store_of: StoreMaker = fingerprints
    found: list[Violation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = chance = SplitMix(self.seed * 7919 + 11)
        self.seen = Seen()
        config = self.config or config_of(chance)
        if self.stateful:
            config = with_states(config, self.seed)
        self.watch = Watch(
            default_oracles(self.mode, without=self.without),
            listeners=[self.seen],
            on_violation=self.stop,
            audit_every=self.audit_every,
        )
        self.cache = UnifiedCache(config, self.watch, store_of=self.store_of)
        self.watch.attach(self.cache)
        if self.tamper is not None:
            self.tamper(self.cache)
        self.fine = chance.unit() < 0.5
        self.bases = [[chance.below(4) for _ in range(BASE_TOKENS)] for _ in range(3)]
        self.running: list[Running] = []
        self.number = 0

    def stop(self, violation: Violation) -> None:
        self.found.append(violation)
        raise Stopped

    def run(self, steps: int = 250) -> Driven:
        try:
            for step in range(steps):
                self.watch.step = step
                self.step()
            self.rest()
        except Stopped:
            pass
        except Exception as error:
            if self.tamper is None:
                raise
            self.found.append(violation_of(error, self.watch.step, 0.0))
        return Driven(self.found, self.seen.counts)

    def step(self) -> None:
        draw = self.chance.unit()
        if draw < 0.25 and len(self.running) < RUNNING:
            self.arrive()
        elif draw < 0.62 and self.running:
            self.advance(self.chance.choice(self.running))
        elif draw < 0.70 and self.running:
            self.end(self.chance.choice(self.running))
        elif draw < 0.80:
            self.copy_runs()
        elif draw < 0.91:
            self.acknowledge()
        elif draw < 0.96:
            self.press()
        elif draw < 0.97:
            self.cache.flush()

    # -- requests ------------------------------------------------------------------------------

    def arrive(self) -> None:
        self.number += 1
        running = Running(self.new_key(), f"R{self.number}")
        self.running.append(running)
        self.admit(running)
        while not self.fine and running.table is None and running in self.running:
            self.admit(running)

    def new_key(self) -> Key:
        chance, page = self.chance, self.cache.config.page_size
        base = chance.choice(self.bases)
        tokens = base[: 1 + chance.below(min(BASE_TOKENS, 20 * page))]
        if chance.unit() < 0.5:
            own = [chance.below(3) for _ in range(1 + chance.below(6))]
            tokens = tokens[: chance.below(len(tokens) + 1)] + own
        namespace = "lora" if chance.unit() < 0.15 else ""
        return Key(_bytes(tokens), page, namespace)

    def admit(self, running: Running) -> None:
        """The next step of an admission."""
        cache = self.cache
        if running.lock is None:
            running.match = cache.match(running.key)
            if self.fine and self.chance.unit() < 0.3:
                self.press()
            running.lock = cache.lock(running.match, f"{running.name}.admission")
            return
        assert running.match is not None
        if not running.loaded and self.chance.unit() < 0.95:
            running.loaded = True
            outcome = cache.load_back(running.match, running.lock).outcome
            if outcome is LoadOutcome.NO_ROOM and self.chance.unit() < 0.5:
                cache.unlock(running.lock)
                self.running.remove(running)
            return
        running.table = cache.settle(
            running.match, running.lock, running.name, self.chance.below(3)
        )
        self.seen.counts["hit"] += running.table.hit_tokens > 0
        cache.unlock(running.lock)

    def advance(self, running: Running) -> None:
        table, cache, chance = running.table, self.cache, self.chance
        if table is None:
            self.admit(running)
            return
        if any(copy.state is CopyState.FAILED for copy in table.waits):
            self.seen.counts["failed_wait"] += 1
            self.end(running)
            return
        if any(copy.in_flight for copy in table.waits):
            return
        cache.read(table, table.written)
        left = running.key.tokens - table.written
        more = 1 + chance.below(3 * cache.config.page_size + 2)
        if not left:
            more = 1
            running.key = running.key.extended(_bytes([chance.below(3)]))
        else:
            more = min(more, left)
        if not cache.extend(table, table.written + more).enough:
            self.seen.counts["short"] += 1
            if chance.unit() < 0.5:
                self.end(running)
            return
        cache.write(table, running.key.prints(), table.written + more)
        cache.read(table, table.written)
        if chance.unit() < 0.5:
            self.seen.counts["blocked"] += cache.commit(table, running.key).blocked
        if chance.unit() < 0.6:
            cache.slide(table, table.written)
            self.watch.slid(table, table.written)
        cache.read(table, table.written)

    def end(self, running: Running) -> None:
        """It is over, wherever it stands."""
        self.running.remove(running)
        table, cache = running.table, self.cache
        if table is None:
            if running.lock is not None:
                cache.unlock(running.lock)
            return
        done = all(copy.state is CopyState.DONE for copy in table.waits)
        if done and self.chance.unit() < 0.7:
            self.seen.counts["blocked"] += cache.finish(table, running.key).blocked
        else:
            self.seen.counts["aborted"] += 1
            cache.abort(table)

    # -- everything else -----------------------------------------------------------------------

    def copy_runs(self) -> None:
        transfers = self.cache.transfers
        copy = transfers.next_to_run(self.chance.choice(tuple(Tier)))
        if copy is None:
            return
        if self.chance.unit() < self.failures:
            transfers.break_off(copy)
        else:
            transfers.run(copy)

    def acknowledge(self) -> None:
        copy = self.cache.transfers.next_to_acknowledge(self.chance.choice(tuple(Tier)))
        if copy is not None:
            self.cache.acknowledge(copy)

    def press(self) -> None:
        below, pool, config = self.chance.below, self.cache.pool, self.cache.config
        wanted = [0] * config.width
        for component in config.components:
            free = pool(component, Tier.DEVICE).free_slots * below(2) + below(6)
            wanted[component] = min(config.pools(component).device, free)
        self.cache.make_room(Demand(*wanted))

    def rest(self) -> None:
        for running in list(self.running):
            self.end(running)
        transfers = self.cache.transfers
        for _ in range(2 * len(transfers)):
            for tier in Tier:
                if (queued := transfers.next_to_run(tier)) is not None:
                    transfers.run(queued)
                if (copy := transfers.next_to_acknowledge(tier)) is not None:
                    self.cache.acknowledge(copy)
        self.watch.at_rest()


def _bytes(tokens: list[int]) -> bytes:
    return array("i", tokens).tobytes()
