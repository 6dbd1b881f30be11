"""The lines of a Mooncake file as checked rows.

A row that comes out of here has everything a request needs: a time or a delay after an earlier row
of its session, and ids that cover its prompt (or, read leniently, a warning that they did not).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice

from workloads.errors import TraceError
from workloads.traces.lines import Line, Path, json_lines

BLOCK_SIZE = 512


@dataclass(frozen=True, slots=True)
class MooncakeRow:
    """One line: either at `timestamp_ms`, or `delay_ms` after the session's previous row ended."""

    line: int
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]
    block_size: int
    timestamp_ms: float | None
    delay_ms: float | None
    session_id: str

    @property
    def request_id(self) -> str:
        """A name that stays the same whatever part of the file is read."""
        return f"line-{self.line}"


@dataclass(frozen=True, slots=True)
class MooncakeTable:
    """The rows in order of time, and what a reader of the report should know about them."""

    rows: tuple[MooncakeRow, ...]
    warnings: tuple[str, ...]


def read_rows(path: Path, *, block_size: int, limit: int | None, lenient: bool) -> MooncakeTable:
    """The first `limit` rows of `path`, checked."""
    reader = _Reader(block_size, lenient)
    for line in islice(json_lines(path), limit):
        reader.add(line)
    if not reader.rows:
        raise TraceError(path, 0, "at least one request", "an empty file")
    return reader.table()


@dataclass
class _Reader:
    block_size: int
    lenient: bool
    rows: list[MooncakeRow] = field(default_factory=list)
    clock_ms: float = 0
    #: The time each session's rows sort by: a closed-loop turn goes with the turn before it.
    session_ms: dict[str, float] = field(default_factory=dict)
    sort_ms: list[float] = field(default_factory=list)
    parents: dict[int, int] = field(default_factory=dict)
    orphans: set[int] = field(default_factory=set)
    disordered: int = 0
    miscounted: int = 0
    both_times: int = 0

    def add(self, line: Line) -> None:
        session_id = line.text("session_id") if "session_id" in line.fields else ""
        timestamp_ms, delay_ms = self._times(line, session_id)
        size = line.integer("block_size", at_least=1) if "block_size" in line.fields else 0
        row = MooncakeRow(
            line=line.number,
            input_length=line.integer("input_length", at_least=1),
            output_length=1 if _is_minimal(line) else line.integer("output_length", at_least=1),
            hash_ids=line.ids("hash_ids"),
            block_size=size or self.block_size,
            timestamp_ms=timestamp_ms,
            delay_ms=delay_ms,
            session_id=session_id,
        )
        row = self._covered(line, row)
        self._chain(row.hash_ids)
        self.rows.append(row)
        at = self.session_ms[session_id] if timestamp_ms is None else timestamp_ms
        self.session_ms[session_id] = at
        self.sort_ms.append(at)

    def table(self) -> MooncakeTable:
        rows = self.rows
        if self.disordered:
            order = sorted(range(len(rows)), key=self.sort_ms.__getitem__)
            rows = [rows[index] for index in order]
        return MooncakeTable(tuple(rows), tuple(self._warnings()))

    def _times(self, line: Line, session_id: str) -> tuple[float | None, float | None]:
        delay = next((name for name in ("delay", "delay_ms") if name in line.fields), None)
        if "timestamp" in line.fields:
            self.both_times += delay is not None
            return self._in_order(line, line.time("timestamp")), None
        if _is_minimal(line):
            return self.clock_ms, None
        follows = session_id != "" and session_id in self.session_ms
        if delay is None or not follows:
            wanted = "timestamp or delay" if follows else "timestamp"
            line.refuse(f"{wanted} as a number of at least 0", "no such field")
        return None, line.time(delay)

    def _in_order(self, line: Line, timestamp_ms: float) -> float:
        if timestamp_ms < self.clock_ms:
            if not self.lenient:
                line.refuse(
                    f"timestamp of at least {self.clock_ms}, that of an earlier line "
                    "(read with --lenient to sort)",
                    str(timestamp_ms),
                )
            self.disordered += 1
        self.clock_ms = max(self.clock_ms, timestamp_ms)
        return timestamp_ms

    def _covered(self, line: Line, row: MooncakeRow) -> MooncakeRow:
        """`row` with exactly the ids its length needs; leniently, with no more than those."""
        needed = -(-row.input_length // row.block_size)
        if len(row.hash_ids) == needed:
            return row
        if not self.lenient:
            line.refuse(
                f"{needed} hash_ids for input_length {row.input_length} in blocks of "
                f"{row.block_size}",
                str(len(row.hash_ids)),
            )
        self.miscounted += 1
        return replace(row, hash_ids=row.hash_ids[:needed])

    def _chain(self, hash_ids: tuple[int, ...]) -> None:
        parent = -1
        for block in hash_ids:
            if self.parents.setdefault(block, parent) != parent:
                self.orphans.add(block)
            parent = block

    def _warnings(self) -> list[str]:
        counted = (
            (len(self.orphans), "block ids follow different blocks: ids are not prefix-chained"),
            (self.disordered, "timestamps out of order: sorted"),
            (self.miscounted, "rows whose hash_ids do not fit their length: cut or filled up"),
            (self.both_times, "rows with timestamp and delay: the timestamp is used"),
        )
        return [f"{count} {text}" for count, text in counted if count]


def _is_minimal(line: Line) -> bool:
    """A row of ids and lengths alone, as cache simulators write them: it asks for one token."""
    return "block_size" in line.fields and line.fields.keys().isdisjoint(
        {"timestamp", "delay", "delay_ms", "output_length", "session_id"}
    )
