"""Mooncake traces: block ids in place of text, one request a line.

`timestamp` is in ms from the start; `hash_ids` name the blocks of the prompt, `block_size` (512)
tokens each, the last one partial.

The extensions of AIPerf and Dynamo are read too: rows with a `session_id` are turns of one session,
either at their own `timestamp` or, closed-loop, `delay` (`delay_ms`) ms after the previous turn
ended. A row may carry the `block_size` of its ids. A row of `block_size`, ids and length alone is
one of KVCache.AI's kvcache-simulator: at the time of the row before, it asks for one token.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from workloads.traces.blocks import BlockRow, Coverage, common_size
from workloads.traces.lines import Line, Path, json_lines
from workloads.traces.recorded import Reading, RecordedTrace, recorded
from workloads.traces.rows import Table, Timeline, counted

BLOCK_SIZE = 512


def read_mooncake(
    path: Path,
    *,
    block_size: int = BLOCK_SIZE,
    time_scale: float = 1.0,
    shrink: int = 1,
    spread_seed: int | None = None,
    limit: int | None = None,
    lenient: bool = False,
) -> RecordedTrace:
    """Read and check the first `limit` requests of a file; the settings are those of `Reading`.

    Raises `TraceError` for the first line that is not as the format says. `lenient` sorts a file
    whose timestamps are out of order, drops surplus ids and gives tokens without an id a stream
    of their own.
    """
    how = Reading(
        block_size=block_size,
        time_scale=time_scale,
        shrink=shrink,
        spread_seed=spread_seed,
        limit=limit,
        lenient=lenient,
    )
    return recorded(path, "mooncake", mooncake_table(path, how), how)


def mooncake_table(path: Path, how: Reading) -> Table:
    """The first rows of `path`, checked."""
    reader = _Reader(how.block_size or BLOCK_SIZE, Timeline(how.lenient), Coverage(how.lenient))
    for line in islice(json_lines(path), how.limit):
        reader.add(line)
    return reader.table()


def is_minimal(fields: dict[str, object]) -> bool:
    """A row of ids and lengths alone, as cache simulators write them: it asks for one token."""
    return "block_size" in fields and fields.keys().isdisjoint(
        {"timestamp", "delay", "delay_ms", "output_length", "session_id"}
    )


@dataclass
class _Reader:
    block_size: int
    timeline: Timeline
    coverage: Coverage
    rows: list[BlockRow] = field(default_factory=list)
    both_times: int = 0

    def add(self, line: Line) -> None:
        session_id = line.text("session_id") if "session_id" in line.fields else ""
        minimal = is_minimal(line.fields)
        timestamp_ms, delay_ms = self._times(line, session_id)
        size = line.integer("block_size", at_least=1) if "block_size" in line.fields else 0
        row = BlockRow(
            line=line.number,
            input_length=line.integer("input_length", at_least=1),
            output_length=1 if minimal else line.integer("output_length", at_least=1),
            hash_ids=line.ids("hash_ids"),
            block_size=size or self.block_size,
            timestamp_ms=timestamp_ms,
            delay_ms=delay_ms,
            session_id=session_id,
        )
        self.rows.append(self.coverage.covered(line, row))

    def table(self) -> Table:
        order, ids = self.timeline.warnings(), self.coverage.warnings()
        both = counted((self.both_times, "rows with timestamp and delay: the timestamp is used"))
        return Table(
            rows=self.timeline.in_order(self.rows),
            time_unit="ms",
            block_size=common_size(self.rows),
            warnings=(*order, *ids, *both),
        )

    def _times(self, line: Line, session_id: str) -> tuple[float | None, float | None]:
        timeline = self.timeline
        delay = next((name for name in ("delay", "delay_ms") if name in line.fields), None)
        if "timestamp" in line.fields:
            self.both_times += delay is not None
            timestamp_ms = line.time("timestamp")
            timeline.at(line, "timestamp", timestamp_ms, session_id=session_id)
            return timestamp_ms, None
        if is_minimal(line.fields):
            timeline.now(session_id)
            return timeline.clock[0], None
        follows = timeline.knows(session_id)
        if delay is None or not follows:
            wanted = "timestamp or delay" if follows else "timestamp"
            line.refuse(f"{wanted} as a number of at least 0", "no such field")
        timeline.behind(session_id)
        return None, line.time(delay)
