"""A small cache under watch that tests lead by the hand."""

from array import array
from typing import Any

from cache.config import CacheConfig, PoolPages, Tier, WritePolicy
from cache.contract import Demand, Match
from cache.keys import Key
from cache.locks import Lock
from cache.table import PageTable
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.oracles import Violation, Watch, default_oracles

PAGE = 2
PLAIN = CacheConfig(page_size=PAGE, full=PoolPages(16, 0))
WINDOWED = CacheConfig(page_size=PAGE, full=PoolPages(16, 0), swa=PoolPages(12, 0), window=4)
TIERED = CacheConfig(
    page_size=PAGE,
    full=PoolPages(16, 16),
    swa=PoolPages(12, 12),
    window=4,
    write_policy=WritePolicy.WRITE_THROUGH,
)


class Bench:
    def __init__(self, config: CacheConfig = PLAIN, **options: Any) -> None:
        self.found: list[Violation] = []
        self.watch = Watch(default_oracles("every"), on_violation=self.found.append, **options)
        self.cache = UnifiedCache(config, self.watch)
        self.watch.attach(self.cache)

    @property
    def oracles(self) -> set[str]:
        return {violation.oracle for violation in self.found}

    @property
    def first(self) -> str:
        """Oracle and signature of what was found first."""
        return f"{self.found[0].oracle} {self.found[0].signature}" if self.found else "nothing"

    def key(self, tokens: int, own: int = 0) -> Key:
        """`tokens` shared tokens and, if `own` is not 0, a page of somebody's own."""
        data = array("i", range(1, tokens + 1))
        if own:
            data.extend([own] * PAGE)
        return Key(data.tobytes(), PAGE)

    def admit(self, key: Key, name: str = "R", *, load: bool = True) -> PageTable:
        match = self.cache.match(key)
        lock = self.cache.lock(match, f"{name}.admission")
        assert lock is not None
        if load:
            self.cache.load_back(match, lock)
        table = self.cache.settle(match, lock, name)
        self.cache.unlock(lock)
        return table

    def compute(self, table: PageTable, key: Key) -> None:
        """Prefill everything, uncommitted."""
        assert self.cache.extend(table, key.tokens).enough
        self.cache.write(table, key.prints(), key.tokens)

    def serve(self, key: Key, name: str = "S") -> None:
        table = self.admit(key, name)
        self.drain()
        self.compute(table, key)
        self.cache.finish(table, key)

    def drain(self) -> None:
        transfers = self.cache.transfers
        for tier in Tier:
            while (copy := transfers.next_to_run(tier)) is not None:
                transfers.run(copy)
            while (copy := transfers.next_to_acknowledge(tier)) is not None:
                self.cache.acknowledge(copy)

    def node(self, number: int = 0) -> Node:
        """The n-th node of the tree, parents first."""
        return list(self.cache.tree.nodes())[number]


def flying_backup() -> Bench:
    bench = Bench(TIERED)
    key = bench.key(5)
    table = bench.admit(key)
    bench.compute(table, key)
    bench.cache.finish(table, key)
    return bench


def flying_load_back() -> tuple[Bench, Match, Lock]:
    bench = flying_backup()
    bench.drain()
    bench.cache.make_room(Demand(16, 12))
    match = bench.cache.match(bench.key(5))
    lock = bench.cache.lock(match, "A.admission")
    bench.cache.load_back(match, lock)
    return bench, match, lock
