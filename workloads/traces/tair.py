"""Traces of tair-kvcache's optimizer: JSONL with `timestamp_us` and the `keys` of prompts' blocks.

The block size is that of the recording instance and not in the file: it is taken from the first row
whose `input_len` its keys divide, unless told. Keys are 64-bit, signed or not, and belong
to their `instance_id`. Queries ask for
a prefix and give no answer (`output_len` 0): such a request asks for one token.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from workloads.traces.blocks import BlockRow, Coverage, common_size
from workloads.traces.lines import MAX_ID, Line, Path, json_lines
from workloads.traces.recorded import Reading
from workloads.traces.rows import Table, Timeline

US_PER_MS = 1000
BLOCK_SIZE = 16  # where no row says
LOOKED_AT = 100


def tair_table(path: Path, how: Reading) -> Table:
    """The first rows of `path`, checked."""
    size = how.block_size or _block_size(islice(json_lines(path), LOOKED_AT))
    timeline, coverage = Timeline(how.lenient), Coverage(how.lenient)
    rows: list[BlockRow] = []
    first_us: float | None = None
    for line in islice(json_lines(path), how.limit):
        at_us = line.time("timestamp_us")
        first_us = at_us if first_us is None else first_us
        timestamp_ms = (at_us - first_us) / US_PER_MS
        timeline.at(line, "timestamp_us", timestamp_ms)
        row = BlockRow(
            line=line.number,
            input_length=line.integer("input_len", at_least=1),
            output_length=max(line.integer("output_len", at_least=0), 1),
            hash_ids=tuple(key & MAX_ID for key in line.signed_ids("keys")),
            block_size=size,
            timestamp_ms=timestamp_ms,
            delay_ms=None,
            session_id="",
            scope=line.text("instance_id"),
        )
        rows.append(coverage.covered(line, row))
    return Table(
        rows=timeline.in_order(rows),
        time_unit="us",
        block_size=common_size(rows) if rows else size,
        warnings=(*timeline.warnings(), *coverage.warnings()),
        origin_ms=timeline.origin_ms(),
    )


def _block_size(lines: Iterable[Line]) -> int:
    for line in lines:
        tokens = line.integer("input_len", at_least=1)
        keys = len(line.signed_ids("keys"))
        if tokens % keys == 0:
            return tokens // keys
    return BLOCK_SIZE
