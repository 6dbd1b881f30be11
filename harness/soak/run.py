"""One soak, from its plans to its run directory.

Invariant: whatever ends the run (its traffic, a violation, Ctrl-C, a full disk), the directory says
what was seen until then.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path

from cache.config import Component, Tier
from cache.contract import Cache
from cache.null import NullCache
from cache.storage.contract import Storage
from cache.unified import UnifiedCache
from harness.decay import Trend, hit_trend, trend_counters
from harness.engine.job import Job, JobStatus
from harness.engine.marks import MEANINGS, Marks
from harness.engine.streams import CopyStreams
from harness.engine.traffic import Traffic
from harness.engine.world import Grain, World
from harness.explore.kernel import Ended, Kernel, Picker, Point, Signal, Task
from harness.explore.pickers import VirtualClock
from harness.model.numerics import Wrong
from harness.oracles import (
    Violation,
    Watch,
    default_oracles,
    raised_by_cache,
    violation_of,
)
from harness.ranks.party import Party, RankLost
from harness.ranks.streams import instant_streams
from harness.record.manifest import Mark
from harness.record.ranks import FILE as RANKS
from harness.record.ranks import RankRow, table_of
from harness.record.run import EndStatus, Recorded, Recorder
from harness.record.summary import Number
from harness.serve.wall_clock import WallClock
from harness.soak.build import every_rank, one_rank
from harness.soak.computed import Computed
from harness.soak.gauges import Gauges
from harness.soak.live import Progress, Screen
from harness.soak.memory import rare_collections
from harness.soak.plan import ServerPlan, TrafficPlan
from harness.soak.rows import row_of
from harness.soak.settings import AUDIT_EVERY, STEP_LIMIT, Watching
from harness.soak.storage import troubled
from harness.soak.wall import stopping_on_interrupt
from harness.verdict import Verdict
from workloads.footprint import IdealCache

SAMPLE_S = 1.0
RECENT = 512
ADVICE = "send more requests, or lower --device-pages until the working set does not fit"


@dataclass(frozen=True, slots=True)
class Soaked:
    """What a soak came to. `report` is None where it could not be written."""

    verdict: Verdict
    reason: str
    summary: Mapping[str, Number]
    recorded: Recorded
    report: Path | None
    interrupted: bool


class Soak:
    """Made for one run: `Soak(...).run()`."""

    def __init__(
        self,
        server: ServerPlan,
        traffic: TrafficPlan,
        watching: Watching,
        *,
        radix_cache: bool,
        warmup_requests: int,
        recorder: Recorder,
        screen: Screen,
        clock: Picker | None = None,
        party: Party | None = None,
    ) -> None:
        """`party` are the other ranks, where this process is one of several."""
        config = server.config
        self._party = party
        self._shared: Mapping[str, float] = {}  # of all ranks, at the latest sample
        self._lost = ""  # why a rank was, if one was
        self._clock: Picker = clock or VirtualClock()
        self._recorder = recorder
        self._screen = screen
        self._warmup = warmup_requests
        self._ended = self._hits = 0
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._ideal = IdealCache(config.page_size)
        self._ideal_tokens: dict[int, int] = {}
        self._steps = 0
        self._marks = Marks(config)
        self._watch = Watch(
            default_oracles(watching.oracles),
            listeners=[self._marks],
            on_violation=self._on_violation,
            audit_every=AUDIT_EVERY[watching.oracles],
        )
        self._storage = _open(server, party, recorder.folder, self._now)
        self._traffic = Traffic(config)
        self._watch.listen(self._traffic)
        self._at_rest = self._watch.at_rest
        self.cache: Cache = NullCache(config, self._watch)
        if radix_cache:
            self.cache = self._build(server, watching)
        if len(self.cache.ranks) == 1:
            self._watch.attach(self.cache.ranks[0])
        self._computed = self._computed_of(server)
        self.world = World(
            self.cache,
            server.compute,
            traffic.workload.sessions(),
            limits=server.limits,
            load=traffic.load,
            vocab_size=server.shape.vocab_size,
            grain=Grain(),
            link=None if server.storage is None else server.storage.link,
            trouble=None if server.storage is None else server.storage.troubles,
            executor=None if self._computed is None else self._computed.executor,
            streams=self._streams_of(),
            storage=None if self._computed is None or party else self._computed.storage,
            on_accept=self._on_accept,
            on_job=self._on_job,
            on_gap=recorder.itl,
        )
        memory = None if self._computed is None else self._computed.memory
        self._gauges = Gauges(self.world, self._traffic, memory)
        self._expected = expected_of(traffic)

    def _computed_of(self, server: ServerPlan) -> Computed | None:
        if server.model is None:
            return None
        (own,) = self.cache.ranks
        assert isinstance(own, UnifiedCache)
        return Computed(
            server.model,
            server.storage,
            own,
            self._clock,
            server.compute,
            self._on_wrong,
            self._recorder.folder,
            self._party,
        )

    def _build(self, server: ServerPlan, watching: Watching) -> Cache:
        """The cache, watched already if it has several ranks."""
        party = self._party
        if server.ranks == 1 or party is not None:
            own = one_rank(server, self._watch, self._storage, party.rank if party else 0)
            if party is None:
                return own
            self._watch.listen(party.listener)
            self._at_rest = lambda: self._all_at_rest(own)
            return party.cache_of(own, self._marks.offers_met)
        ranks = every_rank(
            server,
            self._watch,
            self._storage,
            oracles=watching.oracles,
            on_offers=self._marks.offers_met,
        )
        ranks.attach()
        self._at_rest = ranks.at_rest
        return ranks.cache

    def _streams_of(self) -> Callable[[Kernel, Signal], CopyStreams] | None:
        """What runs the copies, where they are not modelled."""
        if self._computed is not None:
            return self._computed.streams
        return None if self._party is None else instant_streams(self.cache.ranks[0])

    def run(self) -> Soaked:
        """Run to the end, or to Ctrl-C, and leave summary, marks and report behind."""
        interrupted = self.live()
        if self._party is not None:
            rows, self._lost = self._party.last(self.rank_row(), self._lost)
            self._recorder.put(RANKS, table_of(rows))
        verdict, reason = self._verdict(interrupted)
        self._storage_pages = 0
        if self._storage is not None:
            self._storage_pages = self._storage.usage().pages
            self._storage.close()
        counters = self._counters(verdict, reason)
        self._recorder.marks(self._mark_rows())
        summary = self._recorder.summary(counters)
        cut: EndStatus = "interrupted" if interrupted else "failed" if self._lost else "finished"
        recorded = self._recorder.finish(summary, status=cut)
        return Soaked(verdict, reason, summary, recorded, report_of(recorded), interrupted)

    def live(self) -> bool:
        """To the end of the traffic and to rest. True after Ctrl-C."""
        try:
            with self._screen, rare_collections():
                ended = self.drive()
            self._conclude(ended)
        except KeyboardInterrupt:
            return True
        return ended.reason == "stopped"

    def drive(self) -> Ended:
        """Only the world, until its traffic has ended; what goes on beside it ends with it."""
        kernel, clock = self.world.kernel, self._clock
        kernel.on_step = self._on_step
        kernel.spawn("sampler", self._sample(), daemon=True)
        ended: Ended | None = None
        try:
            with stopping_on_interrupt(kernel, clock):
                ended = self.world.run(clock, step_limit=STEP_LIMIT)
        finally:
            if self._party is not None:
                self._party.ended(ended)
            if self._computed is not None:
                whole = ended is not None and ended.reason == "finished"
                self._computed.close() if whole else self._computed.cut()
            if isinstance(clock, WallClock):
                clock.close()
        return ended

    # -- while it runs -------------------------------------------------------------------------

    async def _sample(self) -> None:
        kernel = self.world.kernel
        while True:
            await kernel.pause(max(SAMPLE_S, self._recorder.sample_interval_s), "sample")
            if self._party is not None:
                self._shared = self._gauges.shared(self._party)
            self._take_sample()

    def _take_sample(self) -> None:
        metrics = {**self._gauges.read(self._recorder.violations), **self._shared}
        self._recorder.sample(self.world.kernel.now, metrics)
        self._screen.show(self._progress(metrics))

    def _on_step(self, task: Task, point: Point) -> None:
        self._steps += 1
        self._watch.step = self._steps
        self._watch.elapsed_s = self.world.kernel.now

    def _on_accept(self, job: Job) -> None:
        self._ideal_tokens[job.number] = self._ideal.add(job.request)

    def _on_job(self, job: Job) -> None:
        self._ended += 1
        self._marks.job_ended(job)
        if self._computed is not None:
            self._computed.job_ended(job)
        row = row_of(
            job,
            page_size=self.cache.config.page_size,
            phase="warmup" if job.number <= self._warmup else "steady",
            ideal_tokens=self._ideal_tokens.pop(job.number, 0),
            verified=self._watch.verifies_content,
        )
        if job.status is JobStatus.COMPLETED:
            self._gauges.admitted(job)
            self._recent.append(row.ttft_ms)
        self._recorder.request(row)

    def _on_wrong(self, wrong: Wrong) -> None:
        self._watch.report("N1", *wrong)

    def _on_violation(self, violation: Violation) -> None:
        where = {} if self._party is None else {"rank": self._party.rank}
        self._recorder.violation({**violation.record(), **where})

    def _all_at_rest(self, own: UnifiedCache) -> None:
        assert self._party is not None
        self._party.at_rest(own)
        self._watch.at_rest()

    def _progress(self, metrics: Mapping[str, float]) -> Progress:
        gauges, columns = self._gauges, sorted(self._recent)
        prompts = max(1, gauges.prompt_tokens)
        counts = self._marks.counts
        return Progress(
            elapsed_s=self.world.kernel.now,
            ended=self._ended,
            expected=self._expected,
            queued=int(metrics["queue_requests"]),
            running=int(metrics["running_requests"]),
            ttft_p50_ms=columns[len(columns) // 2] if columns else nan,
            ttft_p99_ms=columns[len(columns) * 99 // 100] if columns else nan,
            hit_rate_device=gauges.device_tokens / prompts,
            hit_rate_host=gauges.host_tokens / prompts,
            device_used=self._share(Tier.DEVICE),
            host_used=self._share(Tier.HOST),
            violations=self._recorder.violations,
            marks=sum(1 for count in counts.values() if count),
            marks_known=len(counts),
            hit_rate_storage=None if self._storage is None else gauges.storage_tokens / prompts,
        )

    def _share(self, tier: Tier) -> float:
        config = self.cache.config
        if not config.pools(Component.FULL)[tier]:
            return 0.0
        total = sum(config.pools(c)[tier] * config.slot_bytes[c] for c in config.components)
        return self._traffic.used_bytes[tier] / max(1, total)

    def _now(self) -> float:
        return self.world.kernel.now

    # -- at the end ----------------------------------------------------------------------------

    def _conclude(self, ended: Ended) -> None:
        """Bring the world to rest and ask the oracles once more."""
        self._take_sample()
        if ended.reason == "stopped":
            return
        if ended.reason == "finished":
            try:
                self.world.rest()
                self._traffic.freeze()
                self._marks.freeze()
                self._at_rest()
            except Exception as error:
                self._crashed(error, self.world.kernel.now)
        elif ended.error is not None:
            self._crashed(ended.error, ended.now)
        else:
            waiting = "; ".join(f"{w.task} at {w.point.name}" for w in ended.waiting[:5])
            stuck = Violation(
                "P1", ended.reason, "every request ends", waiting, self._steps, ended.now
            )
            self._on_violation(stuck)

    def _crashed(self, error: Exception, now: float) -> None:
        """A crash of the cache is a finding; one of the harness ends the run. Another rank's death
        is neither."""
        if isinstance(error, RankLost):
            self._lost = str(error)
            return
        if not isinstance(error, AssertionError) and not raised_by_cache(error):
            raise error
        self._on_violation(violation_of(error, self._steps, now))

    def _verdict(self, interrupted: bool) -> tuple[Verdict, str]:
        if self._recorder.violations:
            lost = f"; {self._lost}" if self._lost else ""
            return Verdict.VIOLATION, f"{self._recorder.violations} violations were found{lost}"
        if self._lost and not interrupted:
            return Verdict.INCONCLUSIVE, self._lost
        if interrupted:
            return Verdict.INCONCLUSIVE, "the run was interrupted"
        if not self._recorder.columns.statuses["completed"]:
            return Verdict.INCONCLUSIVE, "no request was completed"
        if self._trend().decayed:
            return Verdict.DECAY, self._trend().why
        missing = [mark for mark in self._required() if not self._marks.counts[mark]]
        if missing:
            means = {m.mark: m.meaning for m in MEANINGS}
            never = ", ".join(f"{mark} ({means[mark]})" for mark in missing)
            return Verdict.INCONCLUSIVE, f"never reached: {never}; {ADVICE}"
        return Verdict.PASS, f"{self._ended:,} requests, no violation, every required mark reached"

    def _trend(self) -> Trend:
        recorder = self._recorder
        return hit_trend(
            recorder.hits.windows(),
            filled_s=recorder.filling.full_s,
            replayed=recorder.replayed,
        )

    def _required(self) -> tuple[str, ...]:
        if isinstance(self.cache, NullCache):
            return ()
        return self._marks.required(self.cache.config)

    def _mark_rows(self) -> list[Mark]:
        required = self._required()
        return [
            Mark(m.mark, self._marks.counts[m.mark], required=m.mark in required, meaning=m.meaning)
            for m in MEANINGS
        ]

    def rank_row(self) -> RankRow:
        """What this rank comes to, where it is one of several."""
        assert self._party is not None
        assert self._computed is not None
        self._gauges.rss_bytes()
        host, waits, computed = Tier.HOST, self._party.waits(), self._computed.counters()
        checked = ("logits_checked_requests", "logits_checked_positions")
        return RankRow(
            rank=self._party.rank,
            digest=self.world.digest,
            violations=self._recorder.violations,
            forwards=self._computed.forwards,
            forwards_s=self._computed.forwards_s,
            host_written_bytes=self._traffic.written_bytes[host],
            host_read_bytes=self._traffic.read_bytes[host],
            peak_rss_bytes=self._gauges.peak_rss_bytes,
            **{name: computed.get(name, 0) for name in checked},  # type: ignore[arg-type]
            **waits,  # type: ignore[arg-type]
        )

    def _counters(self, verdict: Verdict, reason: str) -> dict[str, Number]:
        self._gauges.rss_bytes()
        traffic = self._traffic
        counters: dict[str, Number] = {
            "verdict": verdict.value,
            "verdict_reason": reason,
            "violations": self._recorder.violations,
            **trend_counters(self._trend()),
            "marks": sum(1 for count in self._marks.counts.values() if count),
            "digest": self.world.digest,
            "events": self._steps,
            "peak_rss_bytes": self._gauges.peak_rss_bytes,
            "ranks": len(self.cache.ranks) if self._party is None else self._party.ranks,
            "agreements": self.cache.agreed,
        }
        hits = {Tier.DEVICE: self._gauges.device_tokens, Tier.HOST: self._gauges.host_tokens}
        for tier in Tier:
            name = tier.name.lower()
            counters[f"{name}_written_bytes"] = traffic.written_bytes[tier]
            counters[f"{name}_read_bytes"] = traffic.read_bytes[tier]
            counters[f"{name}_hit_tokens"] = hits[tier]
            counters[f"{name}_evicted_pages"] = traffic.evicted_pages[tier]
            counters[f"peak_{name}_bytes"] = traffic.peak_bytes[tier]
        if self._computed is not None:
            counters |= self._computed.counters()
        if self._storage is not None:
            counters |= {
                "storage_written_bytes": self.world.storage.written_bytes,
                "storage_read_bytes": self.world.storage.read_bytes,
                "storage_hit_tokens": self._gauges.storage_tokens,
                "persisted_pages": traffic.persisted_pages,
                "prefetches": traffic.prefetches,
                "prefetched_pages": traffic.prefetched_pages,
                "storage_pages": self._storage_pages,
            }
        return counters


def _open(
    server: ServerPlan, party: Party | None, folder: Path, now: Callable[[], float]
) -> Storage | None:
    """A rank that is a process opens it for itself, and may fill its share."""
    plan = server.storage
    if plan is None:
        return None
    if party is not None:
        plan = replace(plan, capacity_bytes=plan.capacity_bytes // party.ranks)
    storage = plan.open(folder / "storage")
    return storage if plan.troubles is None else troubled(storage, plan.troubles, now)


def expected_of(traffic: TrafficPlan) -> int | None:
    """How many requests will be sent, if only their number limits them."""
    load = traffic.load
    total = sum(
        1
        for session in traffic.workload.sessions()
        for turn in session.turns
        if turn.delay_s is not None or turn.arrival_s <= load.duration_s
    )
    return total if load.num_requests is None else min(total, load.num_requests)


def report_of(recorded: Recorded) -> Path | None:
    from harness.report.page import build_report  # whoever draws nothing need not wait a second

    try:
        return build_report(recorded.directory.path)
    except OSError:
        return None
