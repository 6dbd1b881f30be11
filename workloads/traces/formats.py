"""Which formats there are, what each is recognised by, and the one way to read a trace.

A format is told by the fields of the first rows. Where two have the same fields, the block size at
which ids cover the prompts decides; if it is told, the trace is Mooncake's.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path as FilePath

from workloads.errors import TraceError, WorkloadError, shown
from workloads.traces import lengths, llmservingsim, mooncake, timed_trace, tracelab
from workloads.traces.bailian import bailian_table
from workloads.traces.lines import Path, head_of, json_lines
from workloads.traces.ragpulse import ragpulse_table
from workloads.traces.recorded import Reading, RecordedTrace, recorded
from workloads.traces.rows import Table
from workloads.traces.tair import tair_table
from workloads.traces.weka import weka_table

AUTO = "auto"
LOOKED_AT = 20  # rows
HEAD = 1 << 16  # bytes


@dataclass(frozen=True, slots=True)
class Format:
    """One of the formats: what a row must have, in words, and its reader."""

    needs: str
    read: Callable[[Path, Reading], Table]
    fields: tuple[str, ...]


def _csv(read: Callable[[Path, Reading], Table], columns: tuple[str, ...]) -> Format:
    return Format("CSV " + ",".join(columns), read, columns)


def _json(read: Callable[[Path, Reading], Table], *fields: str) -> Format:
    return Format("JSONL " + ",".join(fields), read, fields)


_BLOCKS = ("timestamp", "input_length", "output_length", "hash_ids")
#: In the order in which a file is tried; a format with more fields comes before one with fewer.
FORMATS: Mapping[str, Format] = {
    "bailian": _json(bailian_table, "chat_id", "parent_chat_id", *_BLOCKS),
    "ragpulse": Format(
        "JSONL as mooncake, with hash_ids by part, and side tables", ragpulse_table, _BLOCKS
    ),
    "mooncake": Format(
        "JSONL input_length,hash_ids and timestamp, delay or block_size, blocks of 512",
        mooncake.mooncake_table,
        ("input_length", "hash_ids"),
    ),
    "timed_trace": Format(
        "JSONL as mooncake, in s and blocks of 16", timed_trace.timed_table, _BLOCKS
    ),
    "tair": _json(tair_table, "instance_id", "timestamp_us", "keys", "input_len"),
    "tracelab": _json(
        tracelab.rounds_table,
        "session_id",
        "round_index",
        "input_tokens_total",
        "prefix_tokens",
        "timing_events",
    ),
    "llmservingsim": Format(
        "JSONL arrival_time_ns and input_toks,output_toks or sub_requests",
        llmservingsim.simulator_table,
        ("arrival_time_ns",),
    ),
    "weka": Format("JSON id,requests, or a folder of such", weka_table, ("id", "requests")),
    "azure": _csv(lengths.azure_table, lengths.AZURE.columns),
    "burstgpt": _csv(lengths.burstgpt_table, lengths.BURSTGPT.columns),
    "vidur": _csv(lengths.vidur_table, lengths.VIDUR.columns),
    "splitwise": _csv(lengths.splitwise_table, lengths.SPLITWISE.columns),
    "tracelab-replay": _csv(tracelab.replay_table, tracelab.COLUMNS),
    "etalon": _csv(lengths.etalon_table, lengths.ETALON.columns),
}


def read_trace(path: Path, how: Reading, *, format_name: str = AUTO) -> RecordedTrace:
    """The trace at `path`, of the format that it looks like unless one is named.

    Raises `TraceError` for the first line that is not as the format says, and `WorkloadError` for a
    format that is not known; both say in one line what would be right.
    """
    name = recognised(path, how.block_size) if format_name == AUTO else format_name
    if name not in FORMATS:
        raise WorkloadError(f"--trace-format {name!r} is not known: use auto, {', '.join(FORMATS)}")
    return recorded(path, name, FORMATS[name].read(path, how), how)


def recognised(path: Path, block_size: int | None = None) -> str:
    """The name of the format that the first rows look like; TraceError lists what there is.

    `block_size` is that of the ids where it is known.
    """
    if FilePath(path).is_dir():
        return "weka"
    text = head_of(path, HEAD).decode("utf-8-sig", errors="replace").lstrip()
    if not text:
        raise TraceError(path, 0, "at least one request", "an empty file")
    if not text.startswith("{"):
        return _by_columns(path, text.splitlines()[0])
    first = text.splitlines()[0]
    try:
        fields = json.loads(first)
    except (ValueError, RecursionError):
        fields = {}
    if '"requests"' in text and ("requests" in fields or not fields):
        return "weka"
    return _by_fields(path, block_size)


def _by_columns(path: Path, header: str) -> str:
    columns = [cell.strip() for cell in next(csv.reader([header]), [])]
    for name, known in FORMATS.items():
        if known.needs.startswith("CSV") and set(known.fields) <= set(columns):
            return name
    raise _unknown(path, f"the first line {shown(header)}")


def _by_fields(path: Path, block_size: int | None) -> str:
    rows = [line.fields for line in islice(json_lines(path), LOOKED_AT)]
    first = rows[0]
    for name, known in FORMATS.items():
        if known.needs.startswith("CSV") or not set(known.fields) <= set(first):
            continue
        if (name == "ragpulse") != isinstance(first.get("hash_ids"), dict):
            continue
        if name == "mooncake" and block_size is None and _in_blocks_of_16(rows):
            continue
        return name
    raise _unknown(path, f"the fields {shown(', '.join(first))}")


def _in_blocks_of_16(rows: list[dict[str, object]]) -> bool:
    """Whether the ids cover the prompts with blocks of 16 and not with Mooncake's."""
    if not all(set(_BLOCKS) <= set(row) and "block_size" not in row for row in rows):
        return False
    return not _fit(rows, mooncake.BLOCK_SIZE) and _fit(rows, timed_trace.BLOCK_SIZE)


def _fit(rows: list[dict[str, object]], size: int) -> bool:
    for row in rows:
        length, ids = row["input_length"], row["hash_ids"]
        if type(length) is not int or not isinstance(ids, list) or len(ids) != -(-length // size):
            return False
    return True


def _unknown(path: Path, found: str) -> TraceError:
    known = "; ".join(f"{name} ({one.needs})" for name, one in FORMATS.items())
    return TraceError(path, 0, f"a trace of one of the formats {known}", found)
