"""TraceLab: rounds of coding agents, as JSONL of recorded rounds or as a replay CSV.

Each round says how many tokens of the session so far its prompt begins with (`prefix_tokens`, what
the provider had cached; `prefix_len`) and how many are new. Those that a session's first round
finds cached belong to the session alone: nothing says with whom they were shared.

The loop is closed: a round follows the previous one by the recorded pause, `tool_wait_after_ms` in
the CSV and the time between two rounds' events in the JSONL. `arrival_time` of the CSV is in ms;
without it all sessions begin at once. A session's rounds are in order, sessions need not be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from workloads.tokens import Span, stream_seed
from workloads.traces.lines import Line, Path, csv_lines, json_lines
from workloads.traces.recorded import Reading
from workloads.traces.rows import SpanRow, Table, head_of
from workloads.traces.wall_time import wall_ns

SALT = "tracelab"
COLUMNS = (
    "session_id",
    "round_idx",
    "prefix_len",
    "input_len",
    "output_len",
    "tool_wait_after_ms",
)
NS_PER_MS = 1_000_000


def rounds_table(path: Path, how: Reading) -> Table:
    """The rounds of a JSONL file."""
    rounds = _Rounds()
    for line in islice(json_lines(path), how.limit):
        events = [Line(path, line.number, event) for event in line.objects("timing_events")]
        if not events:
            line.refuse("timing_events with a time", "an empty list")
        begins_ns, ends_ns = wall_ns(events[0], "timestamp"), wall_ns(events[-1], "timestamp")
        prefix = line.integer("prefix_tokens", at_least=0)
        session = rounds.session(line)
        session.add(
            line,
            prefix=prefix,
            new=line.integer("input_tokens_total", at_least=prefix) - prefix,
            answered=line.integer("output_tokens", at_least=0),
            at_ms=begins_ns / NS_PER_MS,
            pause_ms=max(begins_ns - session.ended_ns, 0) / NS_PER_MS,
        )
        session.ended_ns = ends_ns
    return rounds.table("wall time")


def replay_table(path: Path, how: Reading) -> Table:
    """The rounds of a replay CSV."""
    rounds = _Rounds()
    for line in islice(csv_lines(path, COLUMNS, ("arrival_time",)), how.limit):
        session = rounds.session(line)
        session.add(
            line,
            prefix=line.integer("prefix_len", at_least=0),
            new=line.integer("input_len", at_least=0),
            answered=line.integer("output_len", at_least=0),
            at_ms=line.time("arrival_time") if "arrival_time" in line.fields else 0.0,
            pause_ms=session.wait_ms,
        )
        session.wait_ms = line.time("tool_wait_after_ms")
    return rounds.table("ms")


@dataclass
class _Session:
    """The rounds of a session so far, and the tokens that have been said in it."""

    session_id: str
    rows: list[SpanRow] = field(default_factory=list)
    context: tuple[Span, ...] = ()
    ended_ns: int = 0
    wait_ms: float = 0.0

    def add(
        self, line: Line, *, prefix: int, new: int, answered: int, at_ms: float, pause_ms: float
    ) -> None:
        """The first round is at `at_ms`, others `pause_ms` after the one before; answers have a
        token at least.
        """
        if prefix + new < 1:
            line.refuse("a prompt of at least 1 token", "0")
        head, known = head_of(self.context, prefix), sum(span.length for span in self.context)
        seed, start = stream_seed(SALT, self.session_id, line.number), 0
        if head and prefix >= known:  # nothing has been said after it
            seed, start = head[-1].seed, head[-1].start + head[-1].length
        asked = _joined(head, Span(seed, start, prefix + new - min(prefix, known)))
        said = Span(seed, start + prefix + new - min(prefix, known), max(answered, 1))
        self.context = _joined(asked, said)
        row = SpanRow(
            request_id=f"line-{line.number}",
            session_id=self.session_id,
            timestamp_ms=None if self.rows else at_ms,
            delay_ms=pause_ms if self.rows else None,
            asked=asked,
            answered=(said,),
        )
        self.rows.append(row)


@dataclass
class _Rounds:
    sessions: dict[str, _Session] = field(default_factory=dict)

    def session(self, line: Line) -> _Session:
        session_id = line.label("session_id")
        return self.sessions.setdefault(session_id, _Session(session_id))

    def table(self, time_unit: str) -> Table:
        begun = sorted(self.sessions.values(), key=_begin_ms)
        return Table(
            rows=[row for session in begun for row in session.rows],
            time_unit=time_unit,
            prefixes="within sessions, by prefix length",
            origin_ms=min((_begin_ms(session) for session in begun), default=0.0),
        )


def _begin_ms(session: _Session) -> float:
    return session.rows[0].timestamp_ms or 0.0


def _joined(spans: tuple[Span, ...], more: Span) -> tuple[Span, ...]:
    if not more.length:
        return spans
    if spans and spans[-1].seed == more.seed and sum(spans[-1][1:]) == more.start:
        return (*spans[:-1], Span(more.seed, spans[-1].start, spans[-1].length + more.length))
    return (*spans, more)
