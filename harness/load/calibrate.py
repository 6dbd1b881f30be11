"""The client against a server that does nothing: what it adds, and up to which rate it can.

Invariant: the very users, connections and records of a load are measured, and what they say is
compared request by request with what the server saw.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from harness.bench.sheet import Sheet
from harness.load.ended import Ended
from harness.record.histogram import Histogram

CHUNKS = 64
INPUT_LEN = 512
WARMUP = 20
FLOOR_P50_MS = 1.0
FLOOR_P99_MS = 5.0
RATE_KEPT = 0.95
LATE_P99_MS = 50.0


class Comparison:
    """Takes what ended, as a tally does, and keeps only by how much both sides differ. The first
    `warmup` requests, which open connections, are not compared."""

    def __init__(self, *, warmup: int = 0) -> None:
        self._warmup = warmup
        self._differences_ns: list[int] = []
        self._ttft_ns: list[int] = []
        self.completed = 0
        self.failed = 0
        self.chunks = 0
        self.last_ns = 0

    def add(self, ended: Ended) -> None:
        if ended.error or ended.server_ttft_ns < 0:
            self.failed += 1
            return
        self.completed += 1
        self.chunks += ended.output_tokens
        self.last_ns = max(self.last_ns, ended.sent_ns)
        if self.completed <= self._warmup:
            return
        ttft_ns = ended.first_ns - ended.sent_ns
        self._ttft_ns.append(ttft_ns)
        self._differences_ns.append(abs(ttft_ns - ended.server_ttft_ns))

    def gap(self, seconds: float) -> None:
        """Gaps are not compared."""

    def gaps(self, seconds: Histogram) -> None:
        """Gaps are not compared."""

    def difference_ms(self, percent: float) -> float:
        """How far the client's TTFT is from the server's, without its sign."""
        return _percentile_ms(self._differences_ns, percent)

    def ttft_ms(self, percent: float) -> float:
        return _percentile_ms(self._ttft_ns, percent)


def _percentile_ms(values_ns: list[int], percent: float) -> float:
    return float(np.percentile(values_ns, percent)) / 1e6 if values_ns else inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What one rate came to. Differences are of TTFT, client against server."""

    rate_asked: float
    rate_sent: float
    completed: int
    failed: int
    chunks_per_s: float
    ttft_p50_ms: float
    difference_p50_ms: float
    difference_p99_ms: float
    lag_p50_ms: float
    lag_p99_ms: float
    cpu_share: float

    @property
    def holds(self) -> bool:
        """Whether what this client measures at this rate can be believed."""
        return (
            not self.failed
            and self.difference_p50_ms < FLOOR_P50_MS
            and self.difference_p99_ms < FLOOR_P99_MS
            and self.lag_p99_ms < LATE_P99_MS
            and self.rate_sent >= RATE_KEPT * self.rate_asked
        )


def sheet_of(floors: list[Floor], processes: int) -> Sheet:
    """The floors of a client, by rate."""
    return Sheet(
        name="client",
        title=f"Client against a null server, {processes} process{'es' if processes > 1 else ''}",
        notes=(
            f"Streaming requests of {INPUT_LEN} prompt tokens and {CHUNKS} chunks, 5 ms to the"
            " first and between two, sent at an even rate; client and server on this machine.",
            "ttft_off: how far the client's TTFT is from the server's own record of the same"
            " request (from its last byte read to its first chunk written), without sign, the first"
            f" {WARMUP} requests left out. lag: how late requests left. cpu: of one core, by the"
            " client's busiest process.",
            "holds: ttft_off below 1 ms at p50 and 5 ms at p99, lag below 50 ms at p99, no failure,"
            " 95 % of the rate.",
        ),
        columns=("asked_per_s", "sent_per_s", "chunks_per_s", "ttft_p50_ms", "ttft_off_p50_ms",
                 "ttft_off_p99_ms", "lag_p50_ms", "lag_p99_ms", "cpu_pct", "failed", "holds"),
        rows=tuple(
            (f"{f.rate_asked:g}", f.rate_sent, f.chunks_per_s, f.ttft_p50_ms, f.difference_p50_ms,
             f.difference_p99_ms, f.lag_p50_ms, f.lag_p99_ms, f.cpu_share * 100, f.failed,
             "yes" if f.holds else "no")
            for f in floors
        ),
    )  # fmt: skip


def verdict_of(floors: list[Floor]) -> str:
    """In one sentence, up to which rate this client can be believed here."""
    held = [floor.rate_asked for floor in floors if floor.holds]
    if not held:
        return f"it does not hold even at {floors[0].rate_asked:g} requests/s here and now"
    if floors[-1].holds:
        return f"it holds at {held[-1]:g} requests/s, the highest rate that was tried"
    return f"it holds at {held[-1]:g} requests/s and stops holding at {floors[-1].rate_asked:g}"
