"""The world and nothing else: no records, no oracles; what a whole run costs at the least.

Invariant: a run of a trace does the same on every machine, so its digest says what was timed.
"""

from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

from cache.config import CacheConfig, PoolPages
from cache.contract import Cache, Commit, LoadBack, Match, Reading, Room
from cache.null import NullCache
from cache.observer import Observer
from cache.ranks import RankedCache
from cache.table import PageTable
from cache.transfers import Copy
from cache.unified import UnifiedCache
from harness.bench.fresh import peak_rss_bytes
from harness.engine.job import Job
from harness.engine.world import Grain, World
from harness.explore.kernel import Point, Task
from harness.explore.pickers import VirtualClock
from harness.soak.plan import ServerPlan, TrafficPlan, plan_server, plan_traffic
from harness.soak.settings import Serving, Traffic

STEP_LIMIT = 10**12


class Excerpt(NamedTuple):
    """A trace file, or the first requests of it."""

    path: Path
    num_requests: int | None = None

    @property
    def name(self) -> str:
        return self.path.stem


class Ran(NamedTuple):
    """One run. `events` are the kernel's steps, points that nothing came between included;
    `operations` those of the cache's contract; None is what nobody counted."""

    requests: int
    wall_s: float
    cpu_s: float
    model_s: float
    events: int
    operations: int | None
    peak_rss_bytes: int
    violations: int | None
    digest: str


class BareRun:
    """Made for one run of `trace`, at its own speed, on a cache of `kind` as a soak sizes it."""

    def __init__(self, trace: Excerpt, *, kind: type[UnifiedCache] | type[NullCache]) -> None:
        server, traffic = plan_server(Serving()), traffic_of(trace)
        self._operations = OperationCount()
        self._requests = self._events = 0
        self._world = World(
            self._cache(server, kind),
            server.compute,
            traffic.workload.sessions(),
            limits=server.limits,
            load=traffic.load,
            vocab_size=server.shape.vocab_size,
            grain=Grain(),
            on_accept=lambda job: None,
            on_job=self._on_job,
            on_gap=lambda seconds, count: None,
        )
        self._world.kernel.on_step = self._on_step

    def run(self) -> Ran:
        """Raises AssertionError when the world does not come to its end."""
        start, cpu_start = perf_counter(), process_time()
        ended = self._world.run(VirtualClock(), step_limit=STEP_LIMIT)
        elapsed, cpu = perf_counter() - start, process_time() - cpu_start
        assert ended.reason == "finished", ended
        return Ran(
            self._requests,
            elapsed,
            cpu,
            ended.now,
            self._events,
            self._operations.total,
            peak_rss_bytes(),
            None,
            self._world.digest,
        )

    def _cache(self, server: ServerPlan, kind: type[UnifiedCache] | type[NullCache]) -> Cache:
        """What a soak drives, unwatched: operations are counted on the first rank."""
        if kind is NullCache:
            return NullCache(_without_host(server.config), self._operations)
        first = UnifiedCache(server.config, self._operations)
        others = [UnifiedCache(server.config) for _ in range(server.ranks - 1)]
        return RankedCache([first, *others]) if others else first

    def _on_job(self, job: Job) -> None:
        self._requests += 1

    def _on_step(self, task: Task, point: Point) -> None:
        self._events += 1


def traffic_of(trace: Excerpt) -> TrafficPlan:
    """The requests of `trace` at its own speed."""
    return plan_traffic(
        Traffic(trace=str(trace.path), num_requests=trace.num_requests, time_scale=1.0)
    )


class OperationCount(Observer):
    """How many operations of the contract were carried out, of those that do tree or pool work."""

    def __init__(self) -> None:
        self.total = 0

    def matched(self, match: Match) -> None:
        self.total += 1

    def loaded_back(self, match: Match, result: LoadBack) -> None:
        self.total += 1

    def settled(self, match: Match, table: PageTable) -> None:
        self.total += 1

    def extended(self, table: PageTable, room: Room) -> None:
        self.total += 1

    def reading(self, table: PageTable, tokens: int, reading: Reading) -> None:
        self.total += 1

    def committed(self, table: PageTable, result: Commit) -> None:
        self.total += 1

    def closed(self, table: PageTable) -> None:
        self.total += 1

    def acknowledged(self, copy: Copy) -> None:
        self.total += 1


def _without_host(config: CacheConfig) -> CacheConfig:
    swa = config.swa and PoolPages(config.swa.device, 0)
    return replace(config, full=PoolPages(config.full.device, 0), swa=swa)
