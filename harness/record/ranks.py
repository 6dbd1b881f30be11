"""The rows of `ranks.csv`: what became of every rank that was a process of its own."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

FILE = "ranks.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """One rank. Sums are over the whole run; `digest` is that of its world."""

    rank: int
    status: str = "ended"  # or "lost"
    digest: str = ""
    violations: int = 0
    logits_checked_requests: int = 0
    logits_checked_positions: int = 0
    forwards: int = 0
    forwards_s: float = 0.0  # that waited for no load-back
    meetings: int = 0
    meetings_s: float = 0.0
    late_agreements: int = 0  # in which others had landed more
    host_written_bytes: int = 0
    host_read_bytes: int = 0
    peak_rss_bytes: int = 0


def table_of(rows: Sequence[RankRow]) -> str:
    """The file's text."""
    names = [field.name for field in fields(RankRow)]
    lines = [",".join(_cell(value) for value in asdict(row).values()) for row in rows]
    return "\n".join([",".join(names), *lines]) + "\n"


def _cell(value: object) -> str:
    return f"{value:.6f}" if isinstance(value, float) else str(value)
