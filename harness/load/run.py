"""One load, from its plan to its run directory.

Invariant: whatever ends the run (its traffic, a stall, the server's death, Ctrl-C), the directory
says what was seen until then.
"""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.load.crew import Crew  # imports Locust, and so comes first

import gevent  # isort: skip
import psutil

from harness.decay import Trend, hit_trend, trend_counters
from harness.load.asker import Asker
from harness.load.checks import NOTHING_CHECKED, Checked, check_outputs
from harness.load.counts import compare_counts
from harness.load.guard import Guard
from harness.load.names import NAMES
from harness.load.server_info import settings_of
from harness.load.server_side import counts_of, proof_of, sample_of
from harness.load.tally import Tally
from harness.load.watcher import Watcher
from harness.oracles.violation import Violation
from harness.record.run import Recorded, Recorder
from harness.record.summary import Number
from harness.report.page import build_report
from harness.verdict import Verdict

LOOK_S = 1.0
LOOK_TIMEOUT_S = 5.0  # a server that is too busy to tell its metrics may still answer
GUARD_S = 0.25
LAST_LOOKS = 3


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load came to. `report` is None where it could not be written."""

    verdict: Verdict
    reason: str
    summary: Mapping[str, Number]
    recorded: Recorded
    report: Path | None
    interrupted: bool


class LoadRun:
    """Made for one run: `LoadRun(...).run()`."""

    def __init__(
        self, crew: Crew, asker: Asker, tally: Tally, recorder: Recorder, *, seed: int
    ) -> None:
        self._crew = crew
        self._asker = asker
        self._loading = asker.loading
        self._tally = tally
        self._recorder = recorder
        self._seed = seed
        line = asker.line(timeout_s=LOOK_TIMEOUT_S)
        self._watcher = Watcher(line, NAMES[asker.loading.backend])
        self._guard = Guard(crew.pulse, self._watcher, asker.loading.stall_s)
        tally.on_answer = lambda name: self._guard.answered(name, time.monotonic_ns())
        self._process = psutil.Process()
        self._looks = 0
        self._queued_looks = 0
        self._server: dict[str, Number] = {}

    def run(self) -> Loaded:
        interrupted = False
        self._look()
        watching = [gevent.spawn(self._watch), gevent.spawn(self._stand_guard)]
        checked = NOTHING_CHECKED
        try:
            self._crew.run()
            gevent.killall(watching)
            self._last_look()
            self._server = counts_of(self._watcher)
            self._compare_counts()
            if self._loading.check_output and not self._recorder.violations:
                checked = self._check_outputs()
                self._look()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            gevent.killall(watching)
            self._watcher.close()
        self._recorder.server(settings_of(self._watcher.info))
        verdict, reason = self._verdict(interrupted)
        summary = self._recorder.summary(self._counters(verdict, reason, checked))
        status = "interrupted" if interrupted else "finished"
        recorded = self._recorder.finish(summary, status=status)  # type: ignore[arg-type]
        report: Path | None = None
        with contextlib.suppress(OSError):
            report = build_report(recorded.directory.path)
        return Loaded(verdict, reason, summary, recorded, report, interrupted)

    # -- while it runs -------------------------------------------------------------------------

    def _watch(self) -> None:
        while True:
            gevent.sleep(LOOK_S)
            self._look()

    def _stand_guard(self) -> None:
        """Apart from the looks, which a server that hangs holds up."""
        while True:
            gevent.sleep(GUARD_S)
            alarm = self._guard.alarm(time.monotonic_ns())
            if alarm is not None:
                self._violated("P1", *alarm)
                self._crew.stop()
                return

    def _look(self) -> None:
        watcher, restarted = self._watcher, bool(self._watcher.restarted)
        answered = watcher.look()
        if answered:
            self._guard.looked(time.monotonic_ns())
            self._count_queue(watcher.last.get("queued"))
        if watcher.restarted and not restarted:
            self._violated("P1", "server.restarted", "one life of the server", watcher.restarted)
        self._recorder.sample(
            self._elapsed_s(),
            {
                **sample_of(watcher, answered=answered),
                "in_flight_requests": float(self._crew.pulse.in_flight),
                "rss_bytes": float(self._process.memory_info().rss),
                "violations": float(self._recorder.violations),
            },
        )

    def _count_queue(self, queued: float | None) -> None:
        if queued is not None and self._crew.pulse.in_flight:
            self._looks += 1
            self._queued_looks += queued > 0

    def _last_look(self) -> None:
        """The counts are compared with: a server that is busy gets more than one chance."""
        for _ in range(LAST_LOOKS):
            self._look()
            if not self._watcher.failures:
                return

    # -- at the end ----------------------------------------------------------------------------

    def _check_outputs(self) -> Checked:
        return check_outputs(
            self._crew.kept, self._asker, share=self._loading.check_output, seed=self._seed,
            device_tokens=self._watcher.last.get("total", 0.0), report=self._violated,
        )  # fmt: skip

    def _compare_counts(self) -> None:
        """Of a server of ours: others count other things, or are not this run's alone."""
        if self._loading.check_counts and not self._tally.errors and not self._crew.troubles:
            for differs in compare_counts(self._tally, self._watcher):
                self._violated("server", f"counts.{differs.what}", differs.here, differs.there)

    def _violated(self, oracle: str, signature: str, expected: str, seen: str) -> None:
        found = Violation(oracle, signature, expected, seen, self._tally.ended, self._elapsed_s())
        self._recorder.violation(found.record())

    def _verdict(self, interrupted: bool) -> tuple[Verdict, str]:
        theirs = self._watcher.grown("violations") or 0.0
        if theirs:
            seen = f"{theirs:.0f} more violations"
            self._violated("server", "violations", "the server's oracles are silent", seen)
        if self._recorder.violations:
            return Verdict.VIOLATION, f"{self._recorder.violations} violations were found"
        if interrupted:
            return Verdict.INCONCLUSIVE, "the run was interrupted"
        if self._crew.troubles:
            return Verdict.INCONCLUSIVE, "; ".join(self._crew.troubles)
        if not self._recorder.columns.statuses["completed"]:
            return (
                Verdict.INCONCLUSIVE,
                f"no request was completed; errors: {self._tally.errors or 0}",
            )
        if complaints := self._degraded():
            return (
                Verdict.INCONCLUSIVE,
                f"degraded (more --processes or a lower rate): {complaints}",
            )
        trend = self._trend()
        if trend.decayed:
            return Verdict.DECAY, trend.why
        found = [f"{self._tally.ended:,} requests", proof_of(self._watcher, self._tally.cached)]
        if saturated := self._saturated():
            found.append(f"the server is saturated: {saturated}")
        return Verdict.PASS, "; ".join(found)

    def _trend(self) -> Trend:
        recorder = self._recorder
        return hit_trend(
            recorder.hits.windows(),
            filled_s=recorder.filling.full_s,
            replayed=recorder.replayed,
        )

    def _degraded(self) -> str:
        return "; ".join(self._crew.health.complaints(self._crew.cpu_share))

    def _saturated(self) -> str:
        users = self._loading.users
        return "; ".join(self._crew.health.saturation(users, self._queued_looks, self._looks))

    def _counters(self, verdict: Verdict, reason: str, checked: Checked) -> dict[str, Number]:
        health = self._crew.health
        counters: dict[str, Number] = {
            "verdict": verdict.value,
            "verdict_reason": reason,
            "violations": self._recorder.violations,
            **trend_counters(self._trend()),
            "answer_trend": checked.trend,
            "peak_rss_bytes": self._process.memory_info().rss,
            "dropped_requests": health.dropped,
            "late_requests": health.late,
            "median_schedule_delay_ms": health.delays.percentile(50) * 1e3,
            "p99_schedule_delay_ms": health.delays.percentile(99) * 1e3,
            "median_client_lag_ms": health.lags.percentile(50) * 1e3,
            "p99_client_lag_ms": health.lags.percentile(99) * 1e3,
            "client_cpu_share": self._crew.cpu_share,
            "degraded": self._degraded(),
            "saturated": self._saturated(),
            "errors": ", ".join(f"{kind}: {n}" for kind, n in sorted(self._tally.errors.items())),
            "outputs_checked": checked.asked,
            "outputs_differed": checked.differed,
            "outputs_loaded_back": checked.loaded_back,
            "outputs_evicted": checked.evicted,
        }
        return counters | (self._server or counts_of(self._watcher))

    def _elapsed_s(self) -> float:
        start = self._crew.start_ns
        return max(0.0, (time.monotonic_ns() - start) / 1e9) if start else 0.0
