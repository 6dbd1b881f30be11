"""Mooncake traces: block ids in place of text, one request a line.

`timestamp` is in ms from the start; `hash_ids` name the blocks of the prompt, `block_size` (512)
tokens each, the last one partial. Each id is one token stream, so equal ids mean equal tokens, and
a partial block holds the first tokens of the whole one.

Two extensions are read too. Rows with a `session_id` are turns of one session, either at their own
`timestamp` or, closed-loop, `delay` ms after the previous turn ended. A row may carry the
`block_size` of its ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

import numpy as np

from workloads.arrivals import Times, check_time_scale
from workloads.errors import WorkloadError
from workloads.request import Request, Session, Workload
from workloads.tokens import Span, numbered_seeds, stream_seed
from workloads.traces.lines import Path, sha256_of
from workloads.traces.mooncake_rows import BLOCK_SIZE, MooncakeRow, read_rows
from workloads.workload import digest_of

SALT = "mooncake"


def read_mooncake(
    path: Path,
    *,
    block_size: int = BLOCK_SIZE,
    time_scale: float = 1.0,
    shrink: int = 1,
    spread_seed: int | None = None,
    limit: int | None = None,
    lenient: bool = False,
) -> MooncakeTrace:
    """Read and check the first `limit` requests of a file.

    `block_size` holds for rows that do not carry their own. Arrivals and delays are multiplied by
    `time_scale`: 2.0 is twice as slow. Blocks, prompts and answers are `shrink` times shorter, with
    the prefixes that they share. A `spread_seed` spreads requests that share an instant
    over the time up to the next one, in their order: recorded times often lie on a coarse grid.

    Raises `TraceError` for the first line that is not as the format says. `lenient` sorts a file
    whose timestamps are out of order, drops surplus ids and gives tokens without an id a stream
    of their own; `source["warnings"]` then counts what was mended.
    """
    _check_settings(block_size, time_scale, limit)
    table = read_rows(path, block_size=block_size, limit=limit, lenient=lenient)
    rows = tuple(_shorter(row, shrink) for row in table.rows) if shrink != 1 else table.rows
    source: dict[str, str | int | float] = {
        "file": str(path),
        "format": "mooncake",
        "sha256": sha256_of(path),
        "time_unit": "ms",
        "time_scale": time_scale,
        "block_size": _common_block_size(rows),
        "requests": len(table.rows),
        "warnings": "; ".join(table.warnings),
    }
    if spread_seed is not None:
        source["spread_seed"] = spread_seed
    if shrink != 1:
        source["shrink"] = shrink
    arrivals = _arrivals_s(rows, time_scale, spread_seed)
    return MooncakeTrace(FilePath(path).stem, source, rows, arrivals, time_scale)


@dataclass(frozen=True)
class MooncakeTrace:
    """A trace in memory: a few numbers and the ids of each row; spans are made while iterating."""

    name: str
    source: Mapping[str, str | int | float]
    records: tuple[MooncakeRow, ...]
    arrivals_s: tuple[float, ...]
    time_scale: float = 1.0

    def sessions(self) -> Iterator[Session]:
        """The sessions; a row without a session is one of its own."""
        salt = stream_seed(SALT)
        for session_id, members in self._members().items():
            turns = (self._request(index, turn, salt) for turn, index in enumerate(members))
            yield Session(session_id, tuple(turns))

    def digest(self) -> str:
        return digest_of(self.sessions())

    def rows(self) -> Iterator[tuple[int, ...]]:
        """The block ids of each request, in the order of the trace."""
        return (row.hash_ids for row in self.records)

    def ids_as_pages(self, page_size: int) -> Workload:
        """The same ids as one whole page of `page_size` tokens each, and no answers.

        Every row is a session of its own: this view exists to count blocks, nothing else.
        """
        return _IdsAsPages(self, page_size)

    def _members(self) -> dict[str, list[int]]:
        members: dict[str, list[int]] = {}
        for index, row in enumerate(self.records):
            members.setdefault(row.session_id or row.request_id, []).append(index)
        return members

    def _request(self, index: int, turn: int, salt: int) -> Request:
        row = self.records[index]
        return Request(
            request_id=row.request_id,
            session_id=row.session_id or row.request_id,
            turn=turn,
            prompt=_prompt(row, salt),
            output=(Span(stream_seed(SALT, "answer", row.line), 0, row.output_length),),
            arrival_s=self.arrivals_s[index],
            delay_s=None if row.delay_ms is None else row.delay_ms * self.time_scale / 1000,
        )


@dataclass(frozen=True)
class _IdsAsPages:
    trace: MooncakeTrace
    page_size: int

    @property
    def name(self) -> str:
        return self.trace.name

    @property
    def source(self) -> Mapping[str, str | int | float]:
        return {**self.trace.source, "ids_as_pages": self.page_size}

    def sessions(self) -> Iterator[Session]:
        salt = stream_seed(SALT)
        for row, arrival_s in zip(self.trace.records, self.trace.arrivals_s, strict=True):
            seeds = numbered_seeds(salt, row.hash_ids)
            pages = tuple(Span(seed, 0, self.page_size) for seed in seeds)
            request = Request(row.request_id, row.request_id, 0, pages, (), arrival_s)
            yield Session(row.request_id, (request,))

    def digest(self) -> str:
        return digest_of(self.sessions())


def _prompt(row: MooncakeRow, salt: int) -> tuple[Span, ...]:
    """Whole blocks, then what is left: the head of the last block, or tokens without an id."""
    size = row.block_size
    spans = [Span(seed, 0, size) for seed in numbered_seeds(salt, row.hash_ids)]
    left = row.input_length - size * len(spans)
    if left < 0:
        spans[-1] = Span(spans[-1].seed, 0, size + left)
    elif left > 0:
        spans.append(Span(stream_seed(SALT, "tail", row.line), 0, left))
    return tuple(spans)


def _arrivals_s(
    rows: tuple[MooncakeRow, ...], time_scale: float, spread_seed: int | None
) -> tuple[float, ...]:
    """Rows at their timestamp; a closed-loop turn at the earliest moment it could be sent."""
    timed = np.array([row.timestamp_ms for row in rows if row.timestamp_ms is not None], np.float64)
    if spread_seed is not None:
        timed = _spread_ms(timed, spread_seed)
    times_s = iter((timed * time_scale / 1000).tolist())
    latest: dict[str, float] = {}
    arrivals = []
    for row in rows:
        if row.delay_ms is None:
            at = next(times_s)
        else:
            at = latest[row.session_id] + row.delay_ms * time_scale / 1000
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


def _shorter(row: MooncakeRow, shrink: int) -> MooncakeRow:
    if shrink < 1 or row.block_size % shrink:
        raise WorkloadError(f"blocks of {row.block_size} tokens cannot be shrunk by {shrink}")
    return replace(
        row,
        input_length=-(-row.input_length // shrink),
        output_length=-(-row.output_length // shrink),
        block_size=row.block_size // shrink,
    )


def _common_block_size(rows: tuple[MooncakeRow, ...]) -> int | str:
    sizes = sorted({row.block_size for row in rows})
    return sizes[0] if len(sizes) == 1 else "by row: " + ", ".join(map(str, sizes))


def _check_settings(block_size: int, time_scale: float, limit: int | None) -> None:
    if block_size < 1:
        raise WorkloadError(f"the trace's block size must be at least 1, not {block_size}")
    check_time_scale(time_scale)
    if limit is not None and limit < 1:
        raise WorkloadError(f"the number of requests must be at least 1, not {limit}")
