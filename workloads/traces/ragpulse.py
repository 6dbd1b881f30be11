"""RAGPulse: JSONL whose `hash_ids` name the parts of a prompt, with side tables of their lengths.

`timestamp` is in s, as a string; rows are sorted by it. The parts are put in the order in which
the source lists them: system prompt, passages, history, web search, user input. An id is at most
512 tokens; how many, the tables beside the trace say (`1_sys_prompt.jsonl` and so on). The few
tokens that no part accounts for come last and are the request's own.

Ids are not chained: a passage is the same wherever it stands, which a prefix cache sees only
behind an equal beginning. A session's turns come at their own times.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path as FilePath

from workloads.errors import TraceError, shown
from workloads.tokens import Span, stream_seed
from workloads.traces.lines import Line, Path, json_lines
from workloads.traces.recorded import Reading
from workloads.traces.rows import MS_PER_S, SpanRow, Table, Timeline, counted, head_of

SALT = "ragpulse"
#: Component of a row: what its side table is called, and the id's name there.
COMPONENTS: Mapping[str, tuple[str, str]] = {
    "sys_prompt": ("sys_prompt", "sys_prompt_id"),
    "passages_ids": ("passages", "passage_id"),
    "history": ("history", "history_id"),
    "web_search": ("web_search", "web_search_id"),
    "user_input": ("user_input", "user_input_id"),
}
Lengths = dict[str, dict[int, int]]


def ragpulse_table(path: Path, how: Reading) -> Table:
    """The first rows of `path`, checked; the side tables lie in the same folder."""
    lengths = {name: _side_table(path, *where) for name, where in COMPONENTS.items()}
    timeline = Timeline(lenient=True)  # the published file is two recordings, one after another
    rows: list[SpanRow] = []
    cut = 0
    for line in islice(json_lines(path), how.limit):
        seconds = Line(line.path, line.number, {"timestamp": _seconds(line)}).time("timestamp")
        session_id = line.text("session_id") if "session_id" in line.fields else ""
        timeline.at(line, "timestamp", seconds * MS_PER_S, session_id=session_id)
        asked = line.integer("input_length", at_least=1)
        answered = line.integer("output_length", at_least=1)
        spans = _spans(line, lengths)
        left = asked - sum(span.length for span in spans)
        if left < 0 and not how.lenient:
            line.refuse(f"parts of at most {asked} tokens, the input_length", str(asked - left))
        own = stream_seed(SALT, "own", line.number)
        if left < 0:
            cut += 1
            spans = head_of(spans, asked)
        elif left > 0:
            spans = (*spans, Span(own, 0, left))
        row = SpanRow(
            request_id=f"line-{line.number}",
            session_id=session_id,
            timestamp_ms=seconds * MS_PER_S,
            delay_ms=None,
            asked=spans,
            answered=(Span(own, max(left, 0), answered),),
        )
        rows.append(row)
    return Table(
        rows=timeline.in_order(rows),
        time_unit="s",
        block_size="by part, at most 512",
        prefixes="parts by id, not chained",
        warnings=(*timeline.warnings(), *counted((cut, "prompts longer than they say: cut"))),
        origin_ms=timeline.origin_ms(),
    )


def _spans(line: Line, lengths: Lengths) -> tuple[Span, ...]:
    parts = line.fields.get("hash_ids")
    if not isinstance(parts, dict) or not set(parts) <= set(COMPONENTS):
        line.refuse(f"hash_ids as an object of {', '.join(COMPONENTS)}", shown(parts))
    named = Line(line.path, line.number, parts)
    spans = []
    for name in COMPONENTS:
        if not parts.get(name):
            continue
        for number in named.ids(name):
            length = lengths[name].get(number)
            if length is None:
                line.refuse(f"ids of {name} that its side table has", str(number))
            spans.append(Span(stream_seed(SALT, name, number), 0, length))
    return tuple(spans)


def _side_table(path: Path, name: str, key: str) -> dict[int, int]:
    folder = FilePath(path).parent
    found = sorted(folder.glob(f"*_{name}.jsonl"))
    if not found:
        raise TraceError(path, 0, f"a side table *_{name}.jsonl beside it", "none")
    return {
        line.integer(key, at_least=0): line.integer("token_length", at_least=1)
        for line in json_lines(found[0])
    }


def _seconds(line: Line) -> object:
    value = line.fields.get("timestamp")
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            pass
    return value
