"""A trace in memory, whatever its format, as a workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

import numpy as np

from workloads.arrivals import Times, check_time_scale
from workloads.errors import TraceError, WorkloadError
from workloads.request import Request, Session, Workload
from workloads.tokens import Span, stream_seed
from workloads.traces.blocks import BlockRow
from workloads.traces.lines import Path, sha256_of
from workloads.traces.rows import Row, Table
from workloads.workload import digest_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a trace is read, for every format.

    `block_size` holds for rows that do not carry their own; None is what the format says. Arrivals
    and delays are multiplied by `time_scale`: 2.0 is twice as slow. Blocks, prompts and answers are
    `shrink` times shorter, with the prefixes that they share. A `spread_seed` spreads requests that
    share an instant over the time up to the next one, in their order: recorded times often lie on a
    coarse grid. `lenient` mends what can be mended; `source["warnings"]` counts it.
    """

    block_size: int | None = None
    time_scale: float = 1.0
    shrink: int = 1
    spread_seed: int | None = None
    limit: int | None = None
    lenient: bool = False

    def __post_init__(self) -> None:
        if self.block_size is not None and self.block_size < 1:
            raise WorkloadError(f"the trace's block size must be at least 1, not {self.block_size}")
        check_time_scale(self.time_scale)
        if self.limit is not None and self.limit < 1:
            raise WorkloadError(f"the number of requests must be at least 1, not {self.limit}")


def recorded(path: Path, name: str, table: Table, how: Reading) -> RecordedTrace:
    """The trace of format `name` whose rows are `table`."""
    if not table.rows:
        raise TraceError(path, 0, "at least one request", "an empty file")
    shrink = how.shrink
    rows = tuple(row.shorter(shrink) for row in table.rows) if shrink != 1 else tuple(table.rows)
    size = table.block_size
    source: dict[str, str | int | float] = {
        "file": str(path),
        "format": name,
        "sha256": sha256_of(path),
        "time_unit": table.time_unit,
        "time_scale": how.time_scale,
        "block_size": size // shrink if isinstance(size, int) else size,
        "prefixes": table.prefixes,
        "requests": len(rows),
        "warnings": "; ".join(table.warnings),
    }
    if how.spread_seed is not None:
        source["spread_seed"] = how.spread_seed
    if shrink != 1:
        source["shrink"] = shrink
    arrivals = _arrivals_s(rows, table.origin_ms, how)
    return RecordedTrace(FilePath(path).stem, source, rows, arrivals, how.time_scale)


@dataclass(frozen=True)
class RecordedTrace:
    """A few numbers and the ids of each row; spans are made while iterating."""

    name: str
    source: Mapping[str, str | int | float]
    records: tuple[Row, ...]
    arrivals_s: tuple[float, ...]
    time_scale: float = 1.0

    def sessions(self) -> Iterator[Session]:
        """The sessions; a row without a session is one of its own."""
        for session_id, members in self._members().items():
            turns = (self._request(index, turn) for turn, index in enumerate(members))
            yield Session(session_id, tuple(turns))

    def digest(self) -> str:
        return digest_of(self.sessions())

    def rows(self) -> Iterator[tuple[int, ...]]:
        """The blocks of each request, in the order of the trace, numbered as they first appear.

        Equal numbers mean equal ids. WorkloadError for a trace without ids.
        """
        numbers: dict[int, int] = {}
        return (
            tuple(numbers.setdefault(block, len(numbers)) for block in row.blocks())
            for row in self._block_rows()
        )

    def ids_as_pages(self, page_size: int) -> Workload:
        """The same ids as one whole page of `page_size` tokens each, and no answers.

        Every row is a session of its own: this view exists to count blocks, nothing else.
        """
        return _IdsAsPages(self, page_size)

    def _block_rows(self) -> list[BlockRow]:
        rows = [row for row in self.records if isinstance(row, BlockRow)]
        if len(rows) != len(self.records):
            raise WorkloadError(f"{self.source['file']} has no block ids: use a trace with them")
        return rows

    def _members(self) -> dict[str, list[int]]:
        members: dict[str, list[int]] = {}
        for index, row in enumerate(self.records):
            members.setdefault(row.session_id or row.request_id, []).append(index)
        return members

    def _request(self, index: int, turn: int) -> Request:
        row = self.records[index]
        return Request(
            request_id=row.request_id,
            session_id=row.session_id or row.request_id,
            turn=turn,
            prompt=row.prompt(),
            output=row.output(),
            arrival_s=self.arrivals_s[index],
            delay_s=None if row.delay_ms is None else row.delay_ms * self.time_scale / 1000,
        )


@dataclass(frozen=True)
class _IdsAsPages:
    trace: RecordedTrace
    page_size: int

    @property
    def name(self) -> str:
        return self.trace.name

    @property
    def source(self) -> Mapping[str, str | int | float]:
        return {**self.trace.source, "ids_as_pages": self.page_size}

    def sessions(self) -> Iterator[Session]:
        rows = self.trace._block_rows()
        for row, arrival_s in zip(rows, self.trace.arrivals_s, strict=True):
            pages = tuple(Span(seed, 0, self.page_size) for seed in row.seeds())
            request = Request(row.request_id, row.request_id, 0, pages, (), arrival_s)
            yield Session(row.request_id, (request,))

    def digest(self) -> str:
        return digest_of(self.sessions())


def _arrivals_s(rows: Sequence[Row], origin_ms: float, how: Reading) -> tuple[float, ...]:
    """Rows at their timestamp; a closed-loop turn at the earliest moment it could be sent."""
    timed = np.array([row.timestamp_ms for row in rows if row.timestamp_ms is not None], np.float64)
    timed = timed - origin_ms
    if how.spread_seed is not None:
        timed = _spread_ms(timed, how.spread_seed)
    times_s = iter((timed * how.time_scale / 1000).tolist())
    latest: dict[str, float] = {}
    arrivals = []
    for row in rows:
        if row.delay_ms is None:
            at = next(times_s)
        else:
            at = latest[row.session_id] + row.delay_ms * how.time_scale / 1000
        latest[row.session_id] = at
        arrivals.append(at)
    return tuple(arrivals)


def _spread_ms(times_ms: Times, seed: int) -> Times:
    """Uniform inside the gap to the next instant; a long pause counts as a usual gap."""
    instants, bucket = np.unique(times_ms, return_inverse=True)
    if len(instants) < 2:
        return times_ms
    gaps = np.diff(instants)
    usual = np.median(gaps)
    room = np.append(np.minimum(gaps, usual), usual)
    chance = np.random.Generator(np.random.PCG64(stream_seed(seed, "spread"))).random(len(bucket))
    inside = chance[np.lexsort((chance, bucket))]
    spread: Times = np.round(times_ms + inside * room[bucket], 3)
    return spread
