"""Qwen-Bailian usage traces: JSONL with `chat_id` and `parent_chat_id`, -1 for the first of a chat.

`timestamp` is in s; ids stand for 16 tokens each, the last block partial. Chats that follow each
other are turns of one session at their own times. A parent that is not in the file begins one.
The source says that special tokens are dropped between turns, so ideal hit rates are a little low.
"""

from __future__ import annotations

from itertools import islice

from workloads.traces.blocks import BlockRow, Coverage, common_size
from workloads.traces.lines import MAX_ID, Path, json_lines
from workloads.traces.recorded import Reading
from workloads.traces.rows import MS_PER_S, Table, Timeline

BLOCK_SIZE = 16


def bailian_table(path: Path, how: Reading) -> Table:
    """The first rows of `path`, checked."""
    timeline, coverage = Timeline(how.lenient), Coverage(how.lenient)
    rows: list[BlockRow] = []
    roots: dict[int, int] = {}
    for line in islice(json_lines(path), how.limit):
        chat = line.integer("chat_id", at_least=0, at_most=MAX_ID)
        parent = line.integer("parent_chat_id", at_least=-1, at_most=MAX_ID)
        root = roots.setdefault(chat, roots.get(parent, chat))
        session_id = f"chat-{root}"
        timestamp_ms = line.time("timestamp") * MS_PER_S
        timeline.at(line, "timestamp", timestamp_ms, session_id=session_id)
        row = BlockRow(
            line=line.number,
            input_length=line.integer("input_length", at_least=1),
            output_length=max(line.integer("output_length", at_least=0), 1),
            hash_ids=line.ids("hash_ids"),
            block_size=how.block_size or BLOCK_SIZE,
            timestamp_ms=timestamp_ms,
            delay_ms=None,
            session_id=session_id,
        )
        rows.append(coverage.covered(line, row))
    return Table(
        rows=timeline.in_order(rows),
        time_unit="s",
        block_size=common_size(rows) if rows else BLOCK_SIZE,
        warnings=(*timeline.warnings(), *coverage.warnings()),
        origin_ms=timeline.origin_ms(),
    )
