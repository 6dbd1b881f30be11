"""A soak of a release: a workload through its own scheduler on the virtual clock, judged from
outside, into the same run directory as a soak of the reference cache.

Invariant: the first violation ends the run; what follows a broken promise says nothing.
"""

import shlex
from collections import deque
from collections.abc import Mapping
from math import nan

import psutil

from harness.decay import Trend, hit_trend, trend_counters
from harness.engine.job import Job, JobStatus
from harness.explore.kernel import Ended, Point, Task
from harness.explore.pickers import VirtualClock
from harness.oracles.violation import Violation
from harness.record.run import Recorder
from harness.record.summary import Number
from harness.soak.live import Progress, Screen
from harness.soak.memory import rare_collections
from harness.soak.plan import ServerPlan, TrafficPlan
from harness.soak.rows import row_of
from harness.soak.run import SAMPLE_S, Soaked, expected_of, report_of
from harness.soak.settings import STEP_LIMIT, Watching
from harness.targets.sglang.broken import Broken
from harness.targets.sglang.device import Copy
from harness.targets.sglang.hold import words_of
from harness.targets.sglang.loader import apart
from harness.targets.sglang.release import Release
from harness.targets.sglang.runner import verdict_of
from harness.targets.sglang.shape import Shape
from harness.targets.sglang.timed import TimedWorld
from harness.targets.sglang.watched import Watched, harness_raised
from harness.targets.sglang.world import Row
from harness.verdict import Verdict
from workloads.footprint import IdealCache

LAST_EVENTS = 40  # that a violation's story tells
RECENT = 512
STILL = 2  # samples in a row at which nothing had moved, after which open requests are stuck
ADVICE = "send more requests, or lower --device-pages until the working set does not fit"


class ReleaseSoak:
    """Made for one run: `ReleaseSoak(...).run()`."""

    def __init__(
        self,
        release: Release,
        shape: Shape,
        server: ServerPlan,
        traffic: TrafficPlan,
        watching: Watching,
        *,
        warmup_requests: int,
        recorder: Recorder,
        screen: Screen,
    ) -> None:
        self._release, self._shape = release, shape
        self._recorder, self._screen = recorder, screen
        self._warmup = warmup_requests
        self._steps = self._ended = self._still = self._told = 0
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._events: deque[str] = deque(maxlen=LAST_EVENTS)
        self._ideal = IdealCache(shape.page_size)
        self._ideal_tokens: dict[int, int] = {}
        self.world = TimedWorld(
            release,
            shape,
            server,
            traffic,
            on_accept=self._on_accept,
            on_job=self._on_job,
            on_gap=recorder.itl,
            on_event=self._on_event,
        )
        self._watched = Watched(self.world, watching.oracles)
        self._moved = Moved(self.world)
        self.world.watchers = [self._watched, self._moved]
        self._process = psutil.Process()
        self._peaks = {"peak_rss_bytes": 0, "peak_device_bytes": 0, "peak_host_bytes": 0}
        self._tokens = (0, 0, 0)  # of prompts; hit on the device, on the host
        self._seen = (0, 0, 0)
        self._expected = expected_of(traffic)

    def run(self) -> Soaked:
        """Run to the end, to a violation, or to Ctrl-C, and leave summary and report behind."""
        interrupted, ended = False, None
        kernel = self.world.kernel
        kernel.on_step = self._on_step
        kernel.spawn("sampler", self._sample(), daemon=True)
        try:
            with self._screen, rare_collections():
                self.world.start()
                ended = kernel.run(VirtualClock(), step_limit=STEP_LIMIT)
            self._conclude(ended)
        except KeyboardInterrupt:
            interrupted = True
        verdict, reason = self._verdict(interrupted)
        self._recorder.marks(self._watched.rows())
        summary = self._recorder.summary(self._counters(verdict, reason))
        recorded = self._recorder.finish(
            summary, status="interrupted" if interrupted else "finished"
        )
        with apart():
            report = report_of(recorded)
        return Soaked(verdict, reason, summary, recorded, report, interrupted)

    # -- while it runs -------------------------------------------------------------------------

    def _on_step(self, task: Task, point: Point) -> None:
        self._steps += 1

    def _on_event(self, words: str) -> None:
        self._told += 1
        self._events.append(f"{self.world.kernel.now:.6f} s  {words}")

    def _on_accept(self, job: Job) -> None:
        self._ideal_tokens[job.number] = self._ideal.add(job.request)

    def _on_job(self, job: Job) -> None:
        self._ended += 1
        row = row_of(
            job,
            page_size=self._shape.page_size,
            phase="warmup" if job.number <= self._warmup else "steady",
            ideal_tokens=self._ideal_tokens.pop(job.number, 0),
            verified=self._watched.verifies_content,
        )
        if job.status is JobStatus.COMPLETED:
            prompts, device, host = self._tokens
            self._tokens = (
                prompts + job.prompt_len,
                device + job.device_tokens,
                host + job.host_tokens,
            )
            self._recent.append(row.ttft_ms)
        self._recorder.request(row)

    async def _sample(self) -> None:
        kernel, told = self.world.kernel, 0
        while True:
            await kernel.pause(max(SAMPLE_S, self._recorder.sample_interval_s), "sample")
            self._take_sample()
            moved = self._told != told
            told, still = self._told, self.world.stands_still
            self._still = self._still + 1 if still and not moved else 0
            if self._still >= STILL:
                names = ", ".join(list(self.world.jobs)[:5])
                raise Broken(
                    "P1",
                    "requests never end",
                    "every request ends",
                    f"{names} wait, and the scheduler is idle",
                )

    def _take_sample(self) -> None:
        metrics = self._gauges()
        self._recorder.sample(self.world.kernel.now, metrics)
        self._screen.show(self._progress(metrics))

    def _gauges(self) -> Mapping[str, float]:
        world, view = self.world, self._watched.view
        view.forget()
        waiting = len(world.scheduler.waiting_queue)
        found: dict[str, float] = {}
        used = {"device": 0.0, "host": 0.0}
        for component in view.components:
            taken = {"device": view.size(component) - len(view.free(component))}
            if self._shape.hierarchical:
                taken["host"] = view.host_size(component) - len(view.host_free(component))
            for tier, tokens in taken.items():
                found[f"{tier}_{component}_used_pages"] = tokens / self._shape.page_size
                used[tier] += tokens * world.costs.token_bytes[component]
        rss = self._process.memory_info().rss
        for name, value in (("rss", rss), *used.items()):
            self._peaks[f"peak_{name}_bytes"] = max(self._peaks[f"peak_{name}_bytes"], int(value))
        prompts, *hits = (a - b for a, b in zip(self._tokens, self._seen, strict=True))
        self._seen = self._tokens
        device, host = (hit / prompts if prompts else nan for hit in hits)
        return {
            **found,
            "device_used_bytes": used["device"],
            "host_used_bytes": used["host"],
            "queue_requests": waiting,
            "running_requests": max(0, len(world.live) - waiting),
            "batch_tokens": world.batch_tokens,
            "hit_rate_device": device,
            "hit_rate_host": host,
            "copies_in_flight": sum(len(stream.copies) for stream in world.streams.values()),
            "rss_bytes": rss,
            "violations": self._recorder.violations,
        }

    def _progress(self, metrics: Mapping[str, float]) -> Progress:
        columns, (prompts, device, host) = sorted(self._recent), self._tokens
        counts = self._watched.marks
        return Progress(
            elapsed_s=self.world.kernel.now,
            ended=self._ended,
            expected=self._expected,
            queued=int(metrics["queue_requests"]),
            running=int(metrics["running_requests"]),
            ttft_p50_ms=columns[len(columns) // 2] if columns else nan,
            ttft_p99_ms=columns[len(columns) * 99 // 100] if columns else nan,
            hit_rate_device=device / max(1, prompts),
            hit_rate_host=host / max(1, prompts),
            device_used=self._share("device", metrics),
            host_used=self._share("host", metrics),
            violations=self._recorder.violations,
            marks=sum(1 for count in counts.values() if count),
            marks_known=len(counts),
        )

    def _share(self, tier: str, metrics: Mapping[str, float]) -> float:
        view, sizes = self._watched.view, self.world.costs.token_bytes
        if tier == "host" and not self._shape.hierarchical:
            return 0.0
        size_of = view.size if tier == "device" else view.host_size
        total = sum(size_of(component) * sizes[component] for component in view.components)
        return metrics[f"{tier}_used_bytes"] / max(1.0, total)

    # -- at the end ----------------------------------------------------------------------------

    def _conclude(self, ended: Ended) -> None:
        """Bring the world to rest and ask the oracles once more."""
        if ended.reason == "finished":
            self._take_sample()
            try:
                self.world.rest()
                self._watched.at_rest()
            except Exception as error:
                self._found(error)
        elif ended.error is not None:
            self._found(ended.error)
        else:
            waiting = "; ".join(f"{w.task} at {w.point.name}" for w in ended.waiting[:5])
            self._found(Broken("P1", ended.reason, "every request ends", waiting))

    def _found(self, error: Exception) -> None:
        """The release's; a failure of the harness ends the run as one."""
        if harness_raised(error):
            raise error
        verdict = verdict_of(error)
        expected, seen = "no exception", str(error).split("\n")[0] or "nothing said"
        if isinstance(error, Broken):
            expected, seen = error.expected, error.seen
        now = self.world.kernel.now
        violation = Violation(verdict.oracle, verdict.signature, expected, seen, self._steps, now)
        self._recorder.violation(
            {**violation.record(), "last": list(self._events), "hunt": self.hunt(verdict.kind)}
        )

    def hunt(self, kind: str) -> str:
        """What searches small worlds of the release for the same, and shrinks what it finds."""
        words = ["hunt", "--target", f"sglang=={self._release.version}"]
        words += ["--until", kind.partition(" (")[0], "--budget", "10m"]
        for word in words_of(self._shape, self._release.era):
            words += ["--hold", word]
        return "python bench.py " + shlex.join(words)

    def _verdict(self, interrupted: bool) -> tuple[Verdict, str]:
        if self._recorder.violations:
            return Verdict.VIOLATION, "a violation was found, and the run ended there"
        if interrupted:
            return Verdict.INCONCLUSIVE, "the run was interrupted"
        if not self._recorder.columns.statuses["completed"]:
            return Verdict.INCONCLUSIVE, "no request was completed"
        if self._trend().decayed:
            return Verdict.DECAY, self._trend().why
        missing = [mark.mark for mark in self._watched.rows() if mark.required and not mark.count]
        if missing:
            return Verdict.INCONCLUSIVE, f"never reached: {', '.join(missing)}; {ADVICE}"
        return Verdict.PASS, f"{self._ended:,} requests, no violation, every required mark reached"

    def _trend(self) -> Trend:
        recorder = self._recorder
        return hit_trend(
            recorder.hits.windows(), filled_s=recorder.filling.full_s, replayed=recorder.replayed
        )

    def _counters(self, verdict: Verdict, reason: str) -> dict[str, Number]:
        marks = self._watched.marks
        return {
            "verdict": verdict.value,
            "verdict_reason": reason,
            "violations": self._recorder.violations,
            **trend_counters(self._trend()),
            "marks": sum(1 for count in marks.values() if count),
            "digest": self.world.kernel.trail.digest(),
            "events": self._steps,
            "ranks": 1,
            "agreements": 0,
            **self._moved.counters(),
            "device_hit_tokens": self._tokens[1],
            "host_hit_tokens": self._tokens[2],
            **self._peaks,
        }


class Moved:
    """Bytes that copies have moved and forwards have written, where they land."""

    def __init__(self, world: TimedWorld) -> None:
        self._world = world
        self._to_host = self._to_device = self._written = 0.0

    def reads(self, row: Row) -> None:
        """The model reads for a request what it then writes behind."""
        self._written += (row.stop - row.start) * sum(self._world.costs.token_bytes.values())

    def copies(self, copy: Copy) -> None:
        moved = self._world.costs.bytes_of(copy)
        if copy.to_host:
            self._to_host += moved
        else:
            self._to_device += moved

    def pages(self, page: object) -> None: ...

    def kept(self, key: str, prints: object) -> None: ...

    def settled(self) -> None: ...

    def counters(self) -> dict[str, Number]:
        return {
            "device_written_bytes": round(self._written + self._to_device),
            "device_read_bytes": round(self._to_host),
            "host_written_bytes": round(self._to_host),
            "host_read_bytes": round(self._to_device),
        }
