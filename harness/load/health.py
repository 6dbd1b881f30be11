"""Whether the client was good enough to be believed, and whether the server could keep up.

A request leaves late for one of two reasons. Its user was there and the client was slow: then the
client was the bottleneck, and the run is degraded. Or every user was waiting for an answer: then
the server was, and it is saturated.
"""

import os
from dataclasses import dataclass, field

from harness.load.settings import DEGRADED_CPU, DEGRADED_MEDIAN_S, DEGRADED_P99_S
from harness.record.histogram import Histogram

LATE_S = 0.010
QUEUED_SHARE = 0.5  # of the looks at a server: more with a queue, and it is saturated


@dataclass(slots=True)
class Health:
    """`delays`: from a request's time to its sending, `lags`: the client's part of that, `waits`:
    the part in which all users were taken."""

    delays: Histogram = field(default_factory=Histogram)
    lags: Histogram = field(default_factory=Histogram)
    waits: Histogram = field(default_factory=Histogram)
    late: int = 0
    dropped: int = 0

    def sent(self, delay_s: float, wait_s: float = 0.0) -> None:
        """A request was sent `delay_s` after its time, for `wait_s` of which no user was free."""
        delay_s = max(0.0, delay_s)
        wait_s = min(max(0.0, wait_s), delay_s)
        self.delays.add(delay_s)
        self.lags.add(delay_s - wait_s)
        self.waits.add(wait_s)
        self.late += delay_s > LATE_S

    def merge(self, other: "Health") -> None:
        self.delays.merge(other.delays)
        self.lags.merge(other.lags)
        self.waits.merge(other.waits)
        self.late += other.late
        self.dropped += other.dropped

    def complaints(self, cpu_share: float) -> list[str]:
        """Why the client was the bottleneck; empty when it was not."""
        median, p99 = self.lags.percentile(50), self.lags.percentile(99)
        found = []
        if median > DEGRADED_MEDIAN_S:
            found.append(f"half of the requests left {median * 1e3:.0f} ms late or more")
        if p99 > DEGRADED_P99_S:
            found.append(f"one request in a hundred left {p99 * 1e3:.0f} ms late or more")
        if cpu_share > DEGRADED_CPU:
            found.append(f"the client used {cpu_share:.0%} of its core")
        return found

    def saturation(self, users: int, queued: int, looks: int) -> list[str]:
        """Why the server was the bottleneck, `queued` of `looks` at it having shown a queue; empty
        when it was not."""
        found = []
        p99 = self.waits.percentile(99)
        if self.dropped or p99 > DEGRADED_P99_S or self.waits.percentile(50) > DEGRADED_MEDIAN_S:
            found.append(
                f"all {users} users waited for answers when requests were due"
                f" (p99 {p99 * 1e3:.0f} ms, {self.dropped:,} dropped)"
            )
        if looks and queued / looks > QUEUED_SHARE:
            found.append(f"requests queued in the server at {queued} of {looks} looks")
        return found


@dataclass(slots=True)
class Busy:
    """How much of a core this process has used since `begin`. Seconds of any one clock."""

    began_s: float = 0.0
    cpu_began_s: float = 0.0

    def begin(self, now_s: float) -> None:
        self.began_s, self.cpu_began_s = now_s, _cpu_s()

    def share(self, now_s: float) -> float:
        return (_cpu_s() - self.cpu_began_s) / max(now_s - self.began_s, 1e-9)


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system
