"""Whether the client was good enough to be believed."""

import os
from dataclasses import dataclass

from harness.load.settings import DEGRADED_CPU, DEGRADED_MEDIAN_S, DEGRADED_P99_S
from harness.record.histogram import Histogram

LATE_S = 0.010


@dataclass(slots=True)
class Health:
    """How late requests were sent, and how busy this process was. `began_s` is of its clock."""

    delays: Histogram
    late: int = 0
    began_s: float = 0.0
    cpu_began_s: float = 0.0

    def begin(self, now_s: float) -> None:
        self.began_s, self.cpu_began_s = now_s, _cpu_s()

    def sent(self, delay_s: float) -> None:
        """A request was sent so long after its time."""
        self.delays.add(max(0.0, delay_s))
        self.late += delay_s > LATE_S

    def cpu_share(self, now_s: float) -> float:
        """Of one core, since it began."""
        return (_cpu_s() - self.cpu_began_s) / max(now_s - self.began_s, 1e-9)

    def complaints(self, cpu_share: float) -> list[str]:
        """Why the client was the bottleneck; empty when it was not."""
        median, p99 = self.delays.percentile(50), self.delays.percentile(99)
        found = []
        if median > DEGRADED_MEDIAN_S:
            found.append(f"half of the requests left {median * 1e3:.0f} ms late or more")
        if p99 > DEGRADED_P99_S:
            found.append(f"one request in a hundred left {p99 * 1e3:.0f} ms late or more")
        if cpu_share > DEGRADED_CPU:
            found.append(f"the client used {cpu_share:.0%} of its core")
        return found


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system
