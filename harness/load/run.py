"""One load, from its plan to its run directory.

Invariant: whatever ends the run (its traffic, a stall, the server's death, Ctrl-C), the directory
says what was seen until then.
"""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path

import psutil

from harness.load.backends import hits_of
from harness.load.checks import Checked, check_outputs
from harness.load.exchange import Line
from harness.load.guard import Guard
from harness.load.health import Health
from harness.load.names import NAMES
from harness.load.server_info import settings_of
from harness.load.server_side import counts_of, proof_of, sample_of
from harness.load.settings import Loading
from harness.load.swarm import Exchanged, Swarm
from harness.load.watcher import Watcher
from harness.oracles.violation import Violation
from harness.record.histogram import Histogram
from harness.record.requests import RequestRow
from harness.record.run import Recorded, Recorder
from harness.record.summary import Number
from harness.report.page import build_report
from harness.soak.plan import TrafficPlan
from harness.verdict import Verdict
from workloads.footprint import IdealCache

import gevent  # isort: skip  # Locust has patched the standard library by now

LOOK_S = 1.0
LOOK_TIMEOUT_S = 5.0  # a server that is too busy to tell its metrics may still answer
GUARD_S = 0.25


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
        self,
        plan: TrafficPlan,
        loading: Loading,
        recorder: Recorder,
        *,
        model: str,
        api_key: str,
        page_size: int,
        warmup_requests: int,
        seed: int,
    ) -> None:
        self._loading = loading
        self._recorder = recorder
        self._page_size = page_size
        self._warmup = warmup_requests
        self._seed = seed
        self._swarm = Swarm(
            plan.workload, plan.load, loading, model=model, api_key=api_key, on_end=self._ended
        )
        line = Line(loading.base_url, api_key=api_key, timeout_s=LOOK_TIMEOUT_S)
        self._watcher = Watcher(line, NAMES[loading.backend])
        self._guard = Guard(self._swarm.pulse, self._watcher, loading.stall_s)
        self._health = Health(Histogram())
        self._ideal = IdealCache(page_size)
        self._process = psutil.Process()
        self._tiers = dict.fromkeys(("device", "host", "storage"), 0)
        self._errors: dict[str, int] = {}
        self._asked: list[Exchanged] = []
        self._numbered = 0
        self._cpu_share = 0.0
        self._server: dict[str, Number] = {}

    def run(self) -> Loaded:
        interrupted = False
        self._look()
        self._health.begin(time.monotonic())
        watching = [gevent.spawn(self._watch), gevent.spawn(self._stand_guard)]
        checked = Checked(0, 0)
        try:
            self._swarm.run()
            self._cpu_share = self._health.cpu_share(time.monotonic())
            gevent.killall(watching)
            self._look()
            self._server = counts_of(self._watcher)
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
                self._swarm.stopping = True
                return

    def _look(self) -> None:
        watcher, restarted = self._watcher, bool(self._watcher.restarted)
        answered = watcher.look()
        if answered:
            self._guard.looked(time.monotonic_ns())
        if watcher.restarted and not restarted:
            self._violated("P1", "server.restarted", "one life of the server", watcher.restarted)
        self._recorder.sample(
            self._elapsed_s(),
            {
                **sample_of(watcher, answered=answered),
                "in_flight_requests": float(self._swarm.pulse.in_flight),
                "rss_bytes": float(self._process.memory_info().rss),
                "violations": float(self._recorder.violations),
            },
        )

    def _ended(self, exchanged: Exchanged) -> None:
        outcome = exchanged.outcome
        self._numbered += 1
        if outcome.sent_ns >= 0:
            self._health.sent((outcome.sent_ns - exchanged.scheduled_ns) / 1e9)
        if outcome.error:
            kind = outcome.error.split(":")[0]
            self._errors[kind] = self._errors.get(kind, 0) + 1
        else:
            self._guard.answered(exchanged.request.request_id, outcome.end_ns)
            self._asked.append(exchanged._replace(outcome=outcome))
            self._thin()
            for gap_ns in outcome.gaps_ns:
                self._recorder.itl(gap_ns / 1e9, 1)
        for tier, tokens in hits_of(outcome)._asdict().items():
            self._tiers[tier] += tokens
        self._recorder.request(self._row(exchanged))

    def _thin(self) -> None:
        """Of the prompts that may be asked again keep a bounded number, spread over the run."""
        if not self._loading.check_output:
            self._asked.clear()
        elif len(self._asked) >= 400:
            self._asked = self._asked[::2]

    def _row(self, exchanged: Exchanged) -> RequestRow:
        request, outcome = exchanged.request, exchanged.outcome
        ideal = self._ideal.add(replace(request, output=()))  # answers come back in no prompt
        whole, started = not outcome.error, outcome.first_ns >= 0
        answered = int(outcome.usage.get("completion_tokens") or len(outcome.texts))
        prompt_tokens = int(outcome.usage.get("prompt_tokens") or len(exchanged.prompt))
        ttft, e2e = outcome.first_ns - outcome.sent_ns, outcome.end_ns - outcome.sent_ns
        tpot = (e2e - ttft) / (answered - 1) if whole and answered > 1 else nan
        hits = hits_of(outcome)
        return RequestRow(
            request_id=request.request_id,
            session_id=request.session_id,
            turn=request.turn,
            phase="warmup" if self._numbered <= self._warmup else "steady",
            tenant=request.tenant,
            scheduled_ns=self._since_start(exchanged.scheduled_ns),
            sent_ns=self._since_start(outcome.sent_ns),
            first_token_ns=self._since_start(outcome.first_ns),
            end_ns=self._since_start(outcome.end_ns),
            prompt_tokens=prompt_tokens,
            output_tokens=answered,
            cached_tokens_device=hits.device,
            cached_tokens_host=hits.host,
            cached_tokens_storage=hits.storage,
            eligible_tokens=(prompt_tokens - 1) // self._page_size * self._page_size,
            ideal_tokens=ideal,
            ttft_ms=ttft / 1e6 if started else nan,
            ttft_scheduled_ms=(
                (outcome.first_ns - exchanged.scheduled_ns) / 1e6 if started else nan
            ),
            queue_ms=nan,
            match_ms=nan,
            load_ms=nan,
            prefill_ms=nan,
            tpot_ms=tpot / 1e6,
            e2e_latency_ms=e2e / 1e6 if whole else nan,
            status="completed" if whole else "rejected" if _refused(outcome.status) else "failed",
            error=outcome.error,
            verified=False,
        )

    # -- at the end ----------------------------------------------------------------------------

    def _check_outputs(self) -> Checked:
        checked = check_outputs(
            self._asked, self._swarm, share=self._loading.check_output, seed=self._seed,
            report=self._violated,
        )  # fmt: skip
        return checked

    def _violated(self, oracle: str, signature: str, expected: str, seen: str) -> None:
        found = Violation(oracle, signature, expected, seen, self._numbered, self._elapsed_s())
        self._recorder.violation(found.record())

    def _verdict(self, interrupted: bool) -> tuple[Verdict, str]:
        theirs = self._watcher.grown("violations") or 0.0
        if theirs:
            seen = f"{theirs:.0f} more violations"
            self._violated("server", "violations", "the server's oracles are silent", seen)
        complaints = self._health.complaints(self._cpu_share)
        if self._recorder.violations:
            return Verdict.VIOLATION, f"{self._recorder.violations} violations were found"
        if interrupted:
            return Verdict.INCONCLUSIVE, "the run was interrupted"
        if not self._recorder.columns.statuses["completed"]:
            return Verdict.INCONCLUSIVE, f"no request was completed; errors: {self._errors or 0}"
        if complaints:
            return Verdict.INCONCLUSIVE, "degraded (more --users or a lower rate): " + "; ".join(
                complaints
            )
        return Verdict.PASS, f"{self._numbered:,} requests; {proof_of(self._watcher, self._tiers)}"

    def _counters(self, verdict: Verdict, reason: str, checked: Checked) -> dict[str, Number]:
        health = self._health
        counters: dict[str, Number] = {
            "verdict": verdict.value,
            "verdict_reason": reason,
            "violations": self._recorder.violations,
            "peak_rss_bytes": self._process.memory_info().rss,
            "dropped_requests": self._swarm.dropped,
            "late_requests": health.late,
            "median_schedule_delay_ms": health.delays.percentile(50) * 1e3,
            "p99_schedule_delay_ms": health.delays.percentile(99) * 1e3,
            "client_cpu_share": self._cpu_share,
            "degraded": "; ".join(health.complaints(self._cpu_share)),
            "errors": ", ".join(f"{kind}: {n}" for kind, n in sorted(self._errors.items())),
            "outputs_checked": checked.asked,
            "outputs_differed": checked.differed,
        }
        return counters | (self._server or counts_of(self._watcher))

    def _elapsed_s(self) -> float:
        start = self._swarm.start_ns
        return max(0.0, (time.monotonic_ns() - start) / 1e9) if start else 0.0

    def _since_start(self, moment_ns: int) -> int:
        return moment_ns - self._swarm.start_ns if moment_ns >= 0 else -1


def _refused(status: int) -> bool:
    return 400 <= status < 500
