"""Traces of lengths alone, in CSV: Azure, BurstGPT, vidur, etalon and splitwise-sim.

Nothing says which prompts begin alike, so every request is of its own tokens. BurstGPT's newer
releases have sessions: there a prompt at least as long as the prompt and answer before it is taken
to begin with them, and any other to be new. Hit rates beyond that mean nothing.

Calls that failed have an answer of 0 tokens (BurstGPT says so); they are left out and counted.
Columns are found by name; others are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from workloads.traces.lines import Line, Path, csv_lines
from workloads.traces.recorded import Reading
from workloads.traces.rows import MS_PER_S, LengthRow, Table, Timeline, counted
from workloads.traces.wall_time import wall_ns

NO_PREFIXES = "none: every request is unique"
BY_LENGTH = "sessions, by length; else unique"


@dataclass(frozen=True, slots=True)
class Dialect:
    """The names of the columns that matter; `time` and `session` are "" where there is none."""

    time: str
    asked: str
    answered: str
    time_unit: str = "s"
    session: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that a file must have."""
        return tuple(name for name in (self.time, self.asked, self.answered) if name)

    @property
    def optional(self) -> tuple[str, ...]:
        return (self.session,) if self.session else ()


AZURE = Dialect("TIMESTAMP", "ContextTokens", "GeneratedTokens", "wall time")
BURSTGPT = Dialect("Timestamp", "Request tokens", "Response tokens", session="Session ID")
VIDUR = Dialect("arrived_at", "num_prefill_tokens", "num_decode_tokens")
ETALON = Dialect("", "num_prefill_tokens", "num_decode_tokens", "none")
SPLITWISE = Dialect("arrival_timestamp", "prompt_size", "token_size")


def lengths_table(path: Path, how: Reading, *, dialect: Dialect) -> Table:
    """The first rows of `path`, checked."""
    reader = _Reader(dialect, Timeline(how.lenient))
    for line in islice(csv_lines(path, dialect.columns, dialect.optional), how.limit):
        reader.add(line)
    return reader.table()


azure_table = partial(lengths_table, dialect=AZURE)
burstgpt_table = partial(lengths_table, dialect=BURSTGPT)
vidur_table = partial(lengths_table, dialect=VIDUR)
etalon_table = partial(lengths_table, dialect=ETALON)
splitwise_table = partial(lengths_table, dialect=SPLITWISE)


@dataclass
class Growing:
    """Names the stream of each turn: that of the turn before where it is long enough to repeat it.

    Only lengths are known of a session, and a chat's prompt repeats all that was said.
    """

    heads: dict[str, tuple[str, int]] = field(default_factory=dict)

    def stream(self, session_id: str, own: str, asked: int, answered: int) -> str:
        if not session_id:
            return own
        stream, said = self.heads.get(session_id, (own, 0))
        stream = stream if asked >= said else own
        self.heads[session_id] = (stream, asked + answered)
        return stream


@dataclass
class _Reader:
    dialect: Dialect
    timeline: Timeline
    rows: list[LengthRow] = field(default_factory=list)
    growing: Growing = field(default_factory=Growing)
    first_ns: int | None = None
    failed: int = 0

    def add(self, line: Line) -> None:
        dialect = self.dialect
        answered = line.integer(dialect.answered, at_least=0)
        if not answered:
            self.failed += 1
            return
        asked = line.integer(dialect.asked, at_least=1)
        named = dialect.session and line.fields.get(dialect.session, "") != ""
        session_id = line.label(dialect.session) if named else ""
        timestamp_ms = self._time_ms(line)
        if dialect.time:
            self.timeline.at(line, dialect.time, timestamp_ms, session_id=session_id)
        own = f"line-{line.number}"
        stream = self.growing.stream(session_id, own, asked, answered)
        row = LengthRow(
            salt="lengths",
            line=line.number,
            input_length=asked,
            output_length=answered,
            timestamp_ms=timestamp_ms,
            session_id=session_id,
            stream="" if stream == own else stream,
        )
        self.rows.append(row)

    def table(self) -> Table:
        sessions = any(row.session_id for row in self.rows)
        return Table(
            rows=self.timeline.in_order(self.rows),
            time_unit=self.dialect.time_unit,
            prefixes=BY_LENGTH if sessions else NO_PREFIXES,
            warnings=(
                *self.timeline.warnings(),
                *counted((self.failed, "rows without an answer: left out")),
            ),
            origin_ms=self.timeline.origin_ms(),
        )

    def _time_ms(self, line: Line) -> float:
        if not self.dialect.time:
            return 0.0
        if self.dialect is not AZURE:
            return line.time(self.dialect.time) * MS_PER_S
        at_ns = wall_ns(line, self.dialect.time)
        if self.first_ns is None:
            self.first_ns = at_ns
        return (at_ns - self.first_ns) / 1e6
