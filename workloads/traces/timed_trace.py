"""vLLM's timed traces: the fields of Mooncake, but times in s and blocks of 16 tokens.

`timestamp` may count from anywhere. A file with other units or names has to be converted first.
"""

from __future__ import annotations

from itertools import islice

from workloads.traces.blocks import BlockRow, Coverage, common_size
from workloads.traces.lines import Path, json_lines
from workloads.traces.recorded import Reading
from workloads.traces.rows import MS_PER_S, Table, Timeline

BLOCK_SIZE = 16


def timed_table(path: Path, how: Reading) -> Table:
    """The first rows of `path`, checked."""
    timeline, coverage = Timeline(how.lenient), Coverage(how.lenient)
    rows: list[BlockRow] = []
    for line in islice(json_lines(path), how.limit):
        timestamp_ms = line.time("timestamp") * MS_PER_S
        timeline.at(line, "timestamp", timestamp_ms)
        row = BlockRow(
            line=line.number,
            input_length=line.integer("input_length", at_least=1),
            output_length=line.integer("output_length", at_least=1),
            hash_ids=line.ids("hash_ids"),
            block_size=how.block_size or BLOCK_SIZE,
            timestamp_ms=timestamp_ms,
            delay_ms=None,
            session_id="",
        )
        rows.append(coverage.covered(line, row))
    return Table(
        rows=timeline.in_order(rows),
        time_unit="s",
        block_size=common_size(rows) if rows else BLOCK_SIZE,
        warnings=(*timeline.warnings(), *coverage.warnings()),
        origin_ms=timeline.origin_ms(),
    )
