"""What master and workers tell each other, through Locust's own connection.

The master sends a plan, then the start, then perhaps the end; a worker says whether it can, then
reports several times a second, and once more when it is done. Invariant: everything a report
counts is since the report before, and reports are numbered, so that a lost one is noticed.
"""

from dataclasses import dataclass, field
from typing import Any

from harness.load.ended import Ended, Kept
from harness.load.health import Health
from harness.record.histogram import Histogram

PLAN = "kvtorture.plan"
PLANNED = "kvtorture.planned"
BEGIN = "kvtorture.begin"
REPORT = "kvtorture.report"
STOP = "kvtorture.stop"


@dataclass(slots=True, kw_only=True)
class Report:
    """`ended` are requests, `gaps` seconds between two chunks, `open_ns` for how long the oldest
    requests have been open; `kept` are some that can be asked again, in the last report alone."""

    number: int
    ended: list[Ended] = field(default_factory=list)
    gaps: Histogram = field(default_factory=Histogram)
    health: Health = field(default_factory=Health)
    kept: list[Kept] = field(default_factory=list)
    in_flight: int = 0
    open_ns: dict[str, int] = field(default_factory=dict)
    quiet_ns: int = 0
    cpu_share: float = 0.0
    rss_bytes: int = 0
    done: bool = False
    error: str = ""  # why it is done before its time

    def packed(self) -> dict[str, Any]:
        """Of lists, numbers and texts alone."""
        health = self.health
        return {
            "number": self.number,
            "ended": self.ended,
            "gaps": self.gaps.packed(),
            "delays": health.delays.packed(),
            "lags": health.lags.packed(),
            "waits": health.waits.packed(),
            "late": health.late,
            "dropped": health.dropped,
            "kept": self.kept,
            "in_flight": self.in_flight,
            "open_ns": self.open_ns,
            "quiet_ns": self.quiet_ns,
            "cpu_share": self.cpu_share,
            "rss_bytes": self.rss_bytes,
            "done": self.done,
            "error": self.error,
        }

    @classmethod
    def unpacked(cls, page: dict[str, Any]) -> "Report":
        health = Health(
            delays=Histogram.unpacked(page["delays"]),
            lags=Histogram.unpacked(page["lags"]),
            waits=Histogram.unpacked(page["waits"]),
            late=page["late"],
            dropped=page["dropped"],
        )
        return cls(
            number=page["number"],
            ended=[Ended.unpacked(fields) for fields in page["ended"]],
            gaps=Histogram.unpacked(page["gaps"]),
            health=health,
            kept=[Kept.unpacked(fields) for fields in page["kept"]],
            in_flight=page["in_flight"],
            open_ns=page["open_ns"],
            quiet_ns=page["quiet_ns"],
            cpu_share=page["cpu_share"],
            rss_bytes=page["rss_bytes"],
            done=page["done"],
            error=page["error"],
        )
