"""One request of a run: the row of `requests.csv`, and the columns that statistics need.

The columns take a few megabytes, whatever the number of requests. Everything else about a request
lives in the file only.
"""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from io import StringIO
from operator import attrgetter
from typing import Literal

from harness.record.column import Column

Phase = Literal["warmup", "steady"]
Status = Literal["completed", "rejected", "aborted", "failed"]
STATUSES: tuple[Status, ...] = ("completed", "rejected", "aborted", "failed")


@dataclass(frozen=True, slots=True)
class RequestRow:
    """What happened to one request; times are integer nanoseconds of the run's clock, -1 when they
    never came.

    A latency that does not exist (the TPOT of one token, the TTFT of a rejected request) is NaN, an
    empty cell in the file.
    """

    request_id: str
    session_id: str
    turn: int
    phase: Phase
    tenant: str
    scheduled_ns: int
    sent_ns: int
    first_token_ns: int
    end_ns: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens_device: int
    cached_tokens_host: int
    cached_tokens_storage: int
    eligible_tokens: int
    ideal_tokens: int
    ttft_ms: float
    ttft_scheduled_ms: float
    queue_ms: float
    match_ms: float
    load_ms: float
    prefill_ms: float
    tpot_ms: float
    e2e_latency_ms: float
    status: Status
    error: str
    verified: bool


FIELDS = tuple(field.name for field in fields(RequestRow))
HEADER = ",".join(FIELDS)
LATENCIES = (
    "ttft_ms",
    "ttft_scheduled_ms",
    "queue_ms",
    "match_ms",
    "load_ms",
    "prefill_ms",
    "tpot_ms",
    "e2e_latency_ms",
)
TOKENS = (
    "prompt_tokens",
    "output_tokens",
    "cached_tokens_device",
    "cached_tokens_host",
    "cached_tokens_storage",
    "eligible_tokens",
    "ideal_tokens",
)
_cells: Callable[[RequestRow], tuple[object, ...]] = attrgetter(*FIELDS)
_latencies: Callable[[RequestRow], tuple[float, ...]] = attrgetter(*LATENCIES)
_tokens: Callable[[RequestRow], tuple[int, ...]] = attrgetter(*TOKENS)


class RequestColumns:
    """The numbers of all steady requests so far, in bounded memory.

    Latencies and token sums are those of completed requests; counts by status are of all steady
    ones; warm-up requests are only counted.
    """

    def __init__(self) -> None:
        self._latencies = tuple(Column() for _ in LATENCIES)
        self._tokens = [0] * len(TOKENS)
        self._statuses: dict[str, int] = dict.fromkeys(STATUSES, 0)
        self.warmup = 0
        self.verified = 0
        self.first_ns = -1
        self.last_ns = -1

    def add(self, row: RequestRow) -> None:
        """Count one request."""
        if row.phase == "warmup":
            self.warmup += 1
            return
        self._statuses[row.status] += 1
        if self.first_ns < 0 or row.scheduled_ns < self.first_ns:
            self.first_ns = row.scheduled_ns
        self.last_ns = max(self.last_ns, row.end_ns)
        if row.status != "completed":
            return
        self.verified += row.verified
        for position, value in enumerate(_latencies(row)):
            if value == value:
                self._latencies[position].add(value)
        for position, tokens in enumerate(_tokens(row)):
            self._tokens[position] += tokens

    @property
    def statuses(self) -> Mapping[str, int]:
        """How many steady requests ended in each status, zeros included."""
        return self._statuses

    @property
    def tokens(self) -> Mapping[str, int]:
        """Sums over completed steady requests, by column name."""
        return dict(zip(TOKENS, self._tokens, strict=True))

    @property
    def duration_s(self) -> float:
        """From the first scheduled arrival to the last end of a steady request."""
        return max(self.last_ns - self.first_ns, 0) / 1e9

    def latency(self, name: str) -> Column:
        """The values of one latency that exist."""
        return self._latencies[LATENCIES.index(name)]


class RequestLines:
    """Turns rows into lines of CSV; one scratch buffer serves them all."""

    def __init__(self) -> None:
        self._scratch = StringIO()
        self._writer = csv.writer(self._scratch, lineterminator="")

    def line(self, row: RequestRow) -> str:
        """Return the row as one line without its end; numbers exact, NaN an empty cell."""
        self._scratch.seek(0)
        self._scratch.truncate()
        self._writer.writerow([_cell(value) for value in _cells(row)])
        return self._scratch.getvalue()


def parse_row(cells: Mapping[str, str]) -> RequestRow:
    """Return the row that a line of `requests.csv` stands for; `ValueError` if it is torn."""
    values: dict[str, object] = {}
    for name, kind in _KINDS.items():
        cell = cells[name]
        if kind is bool and cell not in ("true", "false"):
            raise ValueError(f"{name} is {cell!r}, not true or false")
        values[name] = _PARSERS[kind](cell)
    return RequestRow(**values)  # type: ignore[arg-type]


_KINDS: dict[str, type] = {
    field.name: field.type if field.type in (int, float, bool) else str
    for field in fields(RequestRow)
}
_PARSERS: dict[type, Callable[[str], object]] = {
    int: int,
    float: lambda cell: float(cell or "nan"),
    bool: lambda cell: cell == "true",
    str: str,
}


def _cell(value: object) -> object:
    if value is True or value is False:
        return "true" if value else "false"
    return "" if value != value else value
