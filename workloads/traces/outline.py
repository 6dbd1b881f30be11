"""What a trace is, in a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.footprint import footprint
from workloads.traces.blocks import BlockRow
from workloads.traces.recorded import RecordedTrace
from workloads.workload import in_arrival_order


@dataclass(frozen=True, slots=True)
class Lengths:
    """Of all requests, in tokens; percentiles are numpy's linear ones."""

    mean: float
    p50: float
    p90: float
    p99: float
    max: int
    total: int


@dataclass(frozen=True, slots=True)
class Outline:
    """A trace at its own times; what an infinite cache would hit, each request ending before the
    next.
    """

    requests: int
    sessions: int
    turns_max: int
    closed_loop: int  # requests sent a while after the one before of their session
    span_s: float  # from the first arrival to the last, closed-loop turns as early as can be
    prompt_tokens: Lengths
    output_tokens: Lengths
    page_size: int
    unique_page_tokens: int
    ideal_token_hit_rate: float
    ideal_block_hit_rate: float | None  # None: the trace has no block ids


def outline(trace: RecordedTrace, page_size: int) -> Outline:
    """Count the trace; it is read twice, and held as an infinite cache would."""
    turns = [len(session.turns) for session in trace.sessions()]
    counted = footprint(trace, page_size)
    rows = trace.records
    return Outline(
        requests=len(rows),
        sessions=len(turns),
        turns_max=max(turns),
        closed_loop=sum(row.delay_ms is not None for row in rows),
        span_s=round(max(trace.arrivals_s) - min(trace.arrivals_s), 6),
        prompt_tokens=_lengths([row.input_length for row in rows]),
        output_tokens=_lengths([row.output_length for row in rows]),
        page_size=page_size,
        unique_page_tokens=counted.unique_page_tokens,
        ideal_token_hit_rate=counted.ideal_token_hit_rate,
        ideal_block_hit_rate=_block_hits(trace),
    )


def _lengths(values: Sequence[int]) -> Lengths:
    p50, p90, p99 = np.percentile(values, (50, 90, 99)).tolist()
    return Lengths(
        mean=sum(values) / len(values),
        p50=p50,
        p90=p90,
        p99=p99,
        max=max(values),
        total=sum(values),
    )


def _block_hits(trace: RecordedTrace) -> float | None:
    """Blocks of prompts that were there before, from the first on, over all blocks."""
    if not all(isinstance(row, BlockRow) for row in trace.records):
        return None
    names = [row.request_id for row in trace.records]
    blocks = dict(zip(names, trace.rows(), strict=True))
    seen: set[int] = set()
    references = hits = 0
    for request in in_arrival_order(trace):
        ids = blocks[request.request_id]
        references += len(ids)
        hits += next((n for n, block in enumerate(ids) if block not in seen), len(ids))
        seen.update(ids)
    return hits / references if references else 0.0
