"""Tiny worlds for the engine's tests: one call builds, runs and judges one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cache.audit import audit
from cache.config import CacheConfig, EvictionOrder, PoolPages, Tier, WritePolicy
from cache.contract import Cache, Reading
from cache.keys import state_print
from cache.observer import Observer
from cache.table import PageTable
from cache.unified import UnifiedCache
from harness.engine.clients import Load
from harness.engine.compute import Compute, Direction, NullCompute, Work
from harness.engine.job import Job
from harness.engine.marks import Marks
from harness.engine.scheduler import Limits, Scheduler
from harness.engine.storage_streams import StorageLink
from harness.engine.world import Grain, World
from harness.explore.kernel import Ended, Picker, Point, Task
from harness.explore.pickers import VirtualClock
from harness.explore.prng import SplitMix, derive
from harness.oracles import Violation, Watch
from workloads.arrivals import Burst, Constant, Poisson
from workloads.request import Request, Session
from workloads.synthetic.amounts import Uniform
from workloads.synthetic.chat import Chat
from workloads.tokens import Span

VOCAB = 97
STEPS = 200_000
POINTS = 20_000  # far more than any small world needs


class Livelock(AssertionError):
    """The world does things for ever."""


class Fan(Observer):
    """Tells several watchers."""

    def __init__(self, *watchers: Observer) -> None:
        for name in [n for n in vars(Observer) if not n.startswith("_")]:
            calls = [getattr(w, name) for w in watchers if hasattr(type(w), name)]
            own = [c for w, c in zip(watchers, calls, strict=True) if _overrides(w, name)]
            setattr(self, name, _all(own))


class Content(Observer):
    """Every read is of the prefix that its request's key stands for (C1, C2)."""

    def __init__(self, config: CacheConfig) -> None:
        self._size, self._window = config.page_size, config.window
        self._stateful = config.mamba is not None
        self.jobs: dict[str, Job] = {}
        self.pages = 0

    def reading(self, table: PageTable, tokens: int, reading: Reading) -> None:
        expected = self.jobs[table.holder].key.prints()[: tokens // self._size]
        assert reading.full == expected, f"{table.holder} reads foreign FULL pages"
        if self._window:
            start = max(0, tokens - self._window) // self._size
            assert reading.swa_start == start
            assert reading.swa == expected[start:], f"{table.holder} reads foreign SWA pages"
        if self._stateful:
            state = state_print(self.jobs[table.holder].key.prints(), tokens, self._size)
            assert reading.state == state, f"{table.holder} goes on from a foreign state"
        self.pages += len(reading.full)


class Jitter:
    """Steps and copies of seeded, uneven length: a few microseconds, now and then many more."""

    def __init__(self, seed: int) -> None:
        self._rng = SplitMix(seed)

    def step_s(self, work: Work) -> float:
        return self._draw()

    def copy_s(self, num_bytes: int, pages: int, direction: Direction) -> float:
        return self._draw()

    def agreement_s(self) -> float:
        return self._draw()

    def _draw(self) -> float:
        rng = self._rng
        return (1 + rng.below(10)) * (1e-6 if rng.below(3) else 1e-5)


class Fixed:
    """Every step and every copy takes the time it is told."""

    def __init__(self, *, step_s: float = 1e-6, copy_s: float = 1e-6) -> None:
        self._step_s, self._copy_s = step_s, copy_s

    def step_s(self, work: Work) -> float:
        return self._step_s

    def copy_s(self, num_bytes: int, pages: int, direction: Direction) -> float:
        return self._copy_s

    def agreement_s(self) -> float:
        return 1e-6


@dataclass
class Ran:
    """A run, and everything that its world told."""

    world: World
    cache: Cache
    marks: Marks
    content: Content
    ended: Ended | None = None
    accepted: list[Job] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    gaps: list[tuple[float, int]] = field(default_factory=list)
    audits: int = 0
    found: list[Violation] = field(default_factory=list)

    def __getitem__(self, name: str) -> Job:
        """The job of a request that has ended."""
        return next(job for job in self.jobs if job.name == name)

    @property
    def scheduler(self) -> Scheduler:
        return self.world.scheduler


def config(
    *,
    page: int = 4,
    device: int = 32,
    host: int = 0,
    window: int = 0,
    swa_device: int = 0,
    swa_host: int | None = None,
    states: int = 0,
    **more: Any,
) -> CacheConfig:
    """Pools in pages, `window` in tokens; SWA pools as large as FULL's unless told; as many
    `states` on the host as on the device, if there is one."""
    swa = None
    if window:
        swa = PoolPages(swa_device or device, host if swa_host is None else swa_host)
    full = PoolPages(device, host)
    mamba = PoolPages(states, states if host else 0) if states else None
    return CacheConfig(page_size=page, full=full, swa=swa, window=window, mamba=mamba, **more)


def request(name: str, prompt: int, output: int, *, stream: int = 1, **more: Any) -> Request:
    """One request; equal `stream` means that the longer prompt begins with the shorter."""
    answer = Span(derive(0, "answer", name), 0, output)
    more.setdefault("arrival_s", 0.0)
    return Request(name, f"s-{name}", 0, (Span(stream, 0, prompt),), (answer,), **more)


def alone(*requests: Request) -> list[Session]:
    """Each request a session of its own."""
    return [Session(r.session_id, (r,)) for r in requests]


def build(
    settings: CacheConfig,
    sessions: Iterable[Session],
    *,
    cache_type: Callable[[CacheConfig, Observer], Cache] = UnifiedCache,
    compute: Compute | None = None,
    limits: Limits | None = None,
    load: Load | None = None,
    grain: Grain | None = None,
    watchers: Sequence[Observer] = (),
    watch: Watch | None = None,
    link: StorageLink | None = None,
) -> Ran:
    """`watch`: the oracles to listen too; without it only `judge` does."""
    marks, content = Marks(settings), Content(settings)
    fan = Fan(marks, content, *watchers)
    cache = cache_type(settings, watch or fan)
    if watch is not None:
        for watcher in (marks, content, *watchers):
            watch.listen(watcher)
        watch.attach(cache)
    accepted: list[Job] = []
    jobs: list[Job] = []
    gaps: list[tuple[float, int]] = []

    def accept(job: Job) -> None:
        assert job.name not in content.jobs
        content.jobs[job.name] = job
        accepted.append(job)

    def end(job: Job) -> None:
        jobs.append(job)
        marks.job_ended(job)

    world = World(
        cache,
        compute or NullCompute(),
        sessions,
        limits=limits or Limits(),
        load=load or Load(),
        vocab_size=VOCAB,
        grain=grain or Grain(),
        link=link,
        on_accept=accept,
        on_job=end,
        on_gap=lambda seconds, count: gaps.append((seconds, count)),
    )
    return Ran(world, cache, marks, content, None, accepted, jobs, gaps)


def run(ran: Ran, picker: Picker | None = None, *, audits: bool = False, steps: int = STEPS) -> Ran:
    """Run to the end, whatever it is; audited at every step if asked for."""
    kernel = ran.world.kernel
    seen = 0

    def on_step(task: Task, point: Point) -> None:
        nonlocal seen
        seen += 1
        if seen > POINTS:
            raise Livelock(f"{task.name} at {point}")
        if audits:
            ran.audits += 1
            assert isinstance(ran.cache, UnifiedCache)
            _audit(ran.cache)

    kernel.on_step = on_step
    ran.ended = ran.world.run(picker or VirtualClock(), step_limit=steps)
    return ran


def judge(ran: Ran) -> Ran:
    """What must hold after any run."""
    ended = ran.ended
    assert ended is not None
    if ended.error is not None:
        raise ended.error
    assert ended.reason == "finished", (ended.reason, ended.steps, ended.waiting)
    clients, roster = ran.world.clients, ran.world.scheduler.roster
    assert len(ran.jobs) == clients.sent, "every request ends exactly once"
    assert len({job.name for job in ran.jobs}) == len(ran.jobs)
    assert clients.open == 0
    assert not roster.queue
    assert not roster.running
    _judge_jobs(ran)
    ran.world.rest()
    ran.marks.freeze()
    if isinstance(ran.cache, UnifiedCache):
        _audit(ran.cache)
        assert len(ran.cache.locks) == 0, list(ran.cache.locks.live())
    assert ran.cache.flush()
    for tier in Tier if isinstance(ran.cache, UnifiedCache) else (Tier.DEVICE,):
        for component in ran.cache.config.components:
            pool = ran.cache.pool(component, tier)
            assert pool.free_slots == pool.capacity, pool.name
    return ran


def _audit(cache: UnifiedCache) -> None:
    findings = audit(cache)
    assert findings == [], findings


def _judge_jobs(ran: Ran) -> None:
    for job in ran.jobs:
        assert job.status is not None
        status = job.status.value
        assert job.table is None
        if status == "completed":
            assert job.generated == job.output_len, (job.name, job.generated, job.output_len)
            parts = [job.sent_s, job.admitted_s, job.matched_s, job.loaded_s, job.first_token_s]
            assert parts == sorted(parts), parts
            assert job.first_token_s <= job.end_s
        assert (status == "rejected") == bool(job.error)
        assert job.generated <= job.output_len
        assert job.sent_s >= job.scheduled_s - 1e-12 or ran.world.clients._scattered
    generated = sum(job.generated for job in ran.jobs)
    first = sum(job.generated > 0 for job in ran.jobs)
    assert sum(count for _, count in ran.gaps) == generated - first
    assert all(seconds > 0 for seconds, count in ran.gaps if count) or ran.world.clients._scattered


def stateful(seed: int) -> tuple[CacheConfig, Chat, Limits, Load]:
    """The same with recurrent states, few or many."""
    settings, *rest = nasty(seed)
    rng = np.random.Generator(np.random.PCG64(derive(seed, "states")))
    device = int(rng.integers(2, 9))
    host = int(rng.integers(1, 2 * device)) if settings.hierarchical else 0
    return replace(settings, mamba=PoolPages(device, host)), *rest


def nasty(seed: int) -> tuple[CacheConfig, Chat, Limits, Load]:
    """A small configuration with everything at its edge, and traffic that just about fits."""
    rng = np.random.Generator(np.random.PCG64(derive(seed, "nasty")))

    def pick(*items: Any) -> Any:
        return items[int(rng.integers(len(items)))]

    page = pick(1, 1, 2, 4, 16)
    reuse = bool(rng.integers(2))  # prefixes that come back from the host, for many at once
    window = pick(0, 1, page, page + 1, 2 * page - 1, 3 * page, max(1, page // 2))
    window_pages = -(-window // page)
    device = int(rng.integers(max(6, window_pages + 4), 28))
    ratio = pick(1, 2) if reuse else pick(0, 0.25, 0.5, 1, 2)
    host = max(1, int(device * ratio)) if ratio else 0
    narrow = pick(window_pages + 2, window_pages + 2, min(device, 2 * window_pages + 3), device)
    swa = device if reuse else narrow
    settings = config(
        page=page,
        device=device,
        host=host,
        window=window,
        swa_device=swa,
        swa_host=max(1, int(swa * ratio)) if ratio else 0,
        write_policy=pick(*WritePolicy),
        device_eviction=pick(*EvictionOrder),
        host_eviction=pick(*EvictionOrder),
        load_back_threshold=pick(0, 0, 0, page, 3 * page),
    )
    tokens = device * page
    if reuse:
        shared = pick(tokens // 4, tokens // 3, tokens // 2)
        lengths = (Uniform(shared, shared + page), Uniform(1, 2 * page), Uniform(1, 2 * page))
        groups, clients, rounds = pick(2, 3, 4), int(rng.integers(8, 16)), pick(1, 1, 2)
    else:
        answer = max(1, int(tokens / pick(1.5, 3, 8)))
        question = Uniform(1, max(1, tokens // 8))
        lengths = (Uniform(1, max(1, tokens // 3)), question, Uniform(1, answer))
        groups, clients, rounds = int(rng.integers(1, 4)), int(rng.integers(2, 9)), pick(1, 2, 3)
    chat = Chat(
        num_groups=groups,
        num_clients=clients,
        num_rounds=rounds,
        system_prompt_len=lengths[0],
        question_len=lengths[1],
        output_len=lengths[2],
        think_time_s=Uniform(0, pick(0, 1e-5, 1e-3)),
        abort_share=pick(0, 0, 0.2, 0.5),
        abort_after_s=Uniform(0, pick(0, 2e-5, 2e-4)),
        priority_levels=pick(1, 1, 3),
        namespace_share=pick(0, 0, 0.5),
        arrivals=pick(Constant(float("inf")), Poisson(1e5), Poisson(1e4), Burst(3, 1e-4)),
        seed=seed,
    )
    limits = Limits(
        context_length=pick(tokens, tokens * 2, max(2, tokens // 2)),
        chunked_prefill_size=page * pick(1, 2, 3, 100),
        max_running_requests=100 if reuse else pick(1, 2, 4, 100),
        new_token_ratio=pick(0.0, 0.0, 0.4, 1.0),
        match_s=pick(0.0, 0.0, 3e-6),
    )
    return (
        settings,
        chat,
        limits,
        Load(max_concurrency=pick(None, None, 1, 3) if not reuse else None),
    )


def _overrides(watcher: Observer, name: str) -> bool:
    return getattr(type(watcher), name) is not getattr(Observer, name)


def _all(calls: list[Callable[..., None]]) -> Callable[..., None]:
    def tell(*args: Any) -> None:
        for call in calls:
            call(*args)

    return tell
