"""LLMServingSim: JSONL with `arrival_time_ns`, lengths and, where recorded, the token ids.

Ids are compared to the token, so prompts share what they really share; the tokens that are sent are
others, the same for the same beginning. Rows without ids are unique. An agentic row is a session of
`sub_requests`, each sent `tool_duration_ns` after the one before ended; without ids, a prompt at
least as long as the prompt and answer before it is taken to begin with them.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import islice

from workloads.tokens import Span, stream_seed
from workloads.traces.lengths import Growing
from workloads.traces.lines import MAX_TIME, Line, Path, json_lines
from workloads.traces.recorded import Reading
from workloads.traces.rows import LengthRow, Row, SpanRow, Table, Timeline, head_of, tail_of

SALT = "llmservingsim"
NS_PER_MS = 1_000_000


def simulator_table(path: Path, how: Reading) -> Table:
    """The first rows of `path`, checked; a session counts as one row of the limit."""
    reader = _Reader(Timeline(how.lenient))
    for line in islice(json_lines(path), how.limit):
        reader.add(line)
    return reader.table()


@dataclass
class _Reader:
    timeline: Timeline
    rows: list[Row] = field(default_factory=list)
    growing: Growing = field(default_factory=Growing)
    #: By first token; the root of the tree of all that was said.
    said: dict[int, _Edge] = field(default_factory=dict)
    named: int = 0

    def add(self, line: Line) -> None:
        at_ns = line.integer("arrival_time_ns", at_least=0, at_most=MAX_TIME)
        at_ms = at_ns / NS_PER_MS
        if "sub_requests" not in line.fields:
            self.timeline.at(line, "arrival_time_ns", at_ms)
            self._request(line, f"line-{line.number}", "", at_ms, None)
            return
        session_id = line.label("session_id")
        delay_ms: float | None = None
        for turn, fields in enumerate(line.objects("sub_requests")):
            one = Line(line.path, line.number, fields)
            name = f"line-{line.number}/{turn}"
            if delay_ms is None:
                self.timeline.at(line, "arrival_time_ns", at_ms, session_id=session_id)
                self._request(one, name, session_id, at_ms, None)
            else:
                self.timeline.behind(session_id)
                self._request(one, name, session_id, None, delay_ms)
            tool_ns = one.time("tool_duration_ns") if "tool_duration_ns" in fields else 0.0
            delay_ms = tool_ns / NS_PER_MS

    def table(self) -> Table:
        if not self.named:
            prefixes = "sessions, by length; else unique"
        elif self.named == len(self.rows):
            prefixes = "token ids"
        else:
            prefixes = f"token ids of {self.named} requests; else unique"
        return Table(
            rows=self.timeline.in_order(self.rows),
            time_unit="ns",
            prefixes=prefixes,
            warnings=self.timeline.warnings(),
            origin_ms=self.timeline.origin_ms(),
        )

    def _request(
        self, line: Line, name: str, session_id: str, at_ms: float | None, delay_ms: float | None
    ) -> None:
        asked = line.integer("input_toks", at_least=1)
        answered = max(line.integer("output_toks", at_least=0), 1)
        if "input_tok_ids" not in line.fields:
            row: Row = LengthRow(
                salt=SALT,
                line=line.number,
                input_length=asked,
                output_length=answered,
                timestamp_ms=at_ms,
                delay_ms=delay_ms,
                session_id=session_id,
                stream=self.growing.stream(session_id, name, asked, answered),
                name=name,
            )
        else:
            spans = self._spans(line, name, asked, answered)
            row = SpanRow(name, session_id, at_ms, delay_ms, *spans)
            self.named += 1
        self.rows.append(row)

    def _spans(
        self, line: Line, name: str, asked: int, answered: int
    ) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        prompt = line.ids("input_tok_ids")
        if len(prompt) != asked:
            line.refuse(f"{asked} input_tok_ids, the input_toks", str(len(prompt)))
        answer = line.ids("output_tok_ids") if line.fields.get("output_tok_ids") else ()
        if answer and len(answer) != answered:
            line.refuse(f"{answered} output_tok_ids, the output_toks", str(len(answer)))
        seed = stream_seed(SALT, name)
        joined = _named(self.said, array("Q", prompt + answer), seed)
        spans = head_of(joined, asked)
        if not answer:
            return spans, (Span(seed, asked, answered),)
        return spans, tail_of(joined, asked)


@dataclass(slots=True)
class _Edge:
    """Token ids that are named `seed`, from `start` on; what follows by its first token."""

    tokens: array[int]
    seed: int
    start: int
    below: dict[int, _Edge]


def _named(root: dict[int, _Edge], tokens: array[int], seed: int) -> tuple[Span, ...]:
    """The spans of `tokens`: names that were given before as far as possible, then `seed`'s."""
    spans: list[Span] = []
    below, at = root, 0
    while at < len(tokens):
        edge = below.get(tokens[at])
        if edge is None:
            below[tokens[at]] = _Edge(tokens[at:], seed, at, {})
            spans.append(Span(seed, at, len(tokens) - at))
            break
        common = _common(edge.tokens, tokens, at)
        if common < len(edge.tokens):
            rest = _Edge(edge.tokens[common:], edge.seed, edge.start + common, edge.below)
            edge.tokens, edge.below = edge.tokens[:common], {rest.tokens[0]: rest}
        spans.append(Span(edge.seed, edge.start, common))
        below, at = edge.below, at + common
    return tuple(spans)


def _common(ours: array[int], theirs: array[int], at: int) -> int:
    most = min(len(ours), len(theirs) - at)
    if ours[:most] == theirs[at : at + most]:
        return most
    return next(n for n in range(most) if ours[n] != theirs[at + n])
