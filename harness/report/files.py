"""A run directory, read back.

Only the directory's own files are read, so a report can be made again at any time, for a killed run
too: a torn last line is left out, and a missing summary is worked out from the rows that are there.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd

from harness.record.directory import RUN_FILE, RunDirectory, UsageError
from harness.record.histogram import Histogram
from harness.record.ranks import FILE as RANKS
from harness.record.requests import RequestColumns, RequestRow, parse_row
from harness.record.summary import Number, summarise

VIOLATIONS_READ = 50
REQUEST_TYPES: dict[str, str] = {
    "phase": "category",
    "status": "category",
    "scheduled_ns": "int64",
    "first_token_ns": "int64",
    "end_ns": "int64",
    "prompt_tokens": "int64",
    "output_tokens": "int64",
    "cached_tokens_device": "int64",
    "cached_tokens_host": "int64",
    "cached_tokens_storage": "int64",
    "ideal_tokens": "int64",
    "ttft_ms": "float64",
    "ttft_scheduled_ms": "float64",
    "queue_ms": "float64",
    "match_ms": "float64",
    "load_ms": "float64",
    "prefill_ms": "float64",
}


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What a run left: `requests` are its completed steady ones, `everything` all that ended,
    `series` one column a metric, indexed by elapsed_s.
    """

    path: Path
    run: Mapping[str, Any]
    summary: Mapping[str, Number]
    marks: tuple[Mapping[str, Any], ...]
    violations: tuple[Mapping[str, Any], ...]
    requests: pd.DataFrame
    series: pd.DataFrame
    everything: pd.DataFrame
    ranks: tuple[Mapping[str, str], ...] = ()  # where they were processes

    @property
    def ended(self) -> bool:
        """Whether the run closed its books itself."""
        return bool(self.run["status"] != "running")


def read_run(path: Path) -> RunFiles:
    """Read the run at `path`; raises `UsageError` when there is none that can be read."""
    RunDirectory.open(path)
    try:
        everything = _requests(path)
        return RunFiles(
            path=path,
            run=_run_page(path),
            summary=_summary(path),
            marks=tuple(_json(path / "marks.json", [])),
            violations=tuple(_violations(path)),
            requests=_counted(everything),
            series=_series(path),
            everything=everything,
            ranks=tuple(csv.DictReader(_lines(path / RANKS))),
        )
    except (ValueError, KeyError) as error:
        raise UsageError(f"{path}: not a run directory that can be read ({error})") from error


def _run_page(path: Path) -> dict[str, Any]:
    written = _json(path / RUN_FILE, {})
    if not isinstance(written, dict) or "status" not in written:
        raise ValueError(f"{RUN_FILE} has no status")
    empty = {"clock": "", "seed": None, "command": "", "started": None, "ended": None}
    parts: dict[str, dict[str, Any]] = {
        name: {} for name in ("workload", "settings", "versions", "machine")
    }
    parts["server"] = {}
    rows: dict[str, list[Any]] = {name: [] for name in ("pools", "notes", "ignored_flags", "lost")}
    return {**empty, **parts, **rows, **written}


def _summary(path: Path) -> dict[str, Number]:
    written = _json(path / "summary.json", {})
    if written:
        return dict(written)
    columns = RequestColumns()
    for row in _rows(path / "requests.csv"):
        columns.add(row)
    found = sum(1 for _ in _lines(path / "violations.jsonl"))
    verdict = "violation" if found else "inconclusive"
    why = "the run did not end: it was killed or is still going"
    counters: dict[str, Number] = {"verdict": verdict, "verdict_reason": why, "violations": found}
    return summarise(columns, Histogram(), counters)


def _rows(path: Path) -> Iterator[RequestRow]:
    for cells in csv.DictReader(_lines(path)):
        yield parse_row(cells)


def _violations(path: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(_lines(path / "violations.jsonl")):
        if number == VIOLATIONS_READ:
            return
        with suppress(ValueError):
            yield json.loads(line)


def _requests(path: Path) -> pd.DataFrame:
    source = whole_lines(path / "requests.csv")
    if source is None:
        return pd.DataFrame(columns=list(REQUEST_TYPES))
    return pd.read_csv(source, usecols=list(REQUEST_TYPES), dtype=REQUEST_TYPES)


def _counted(table: pd.DataFrame) -> pd.DataFrame:
    chosen = table[(table["phase"] == "steady") & (table["status"] == "completed")]
    return chosen.sort_values("scheduled_ns", kind="stable", ignore_index=True)


def _series(path: Path) -> pd.DataFrame:
    source = whole_lines(path / "timeseries.csv")
    if source is None:
        return pd.DataFrame(columns=pd.Index([], dtype="str"))
    tidy = pd.read_csv(source, usecols=["elapsed_s", "metric", "value"])
    return tidy.pivot_table(index="elapsed_s", columns="metric", values="value", aggfunc="last")


def _lines(path: Path) -> Iterator[str]:
    """Yield the whole lines of a file that may be missing or end in a torn one."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", newline="") as file:
        for line in file:
            if line.endswith("\n"):
                yield line


def whole_lines(path: Path) -> Path | BytesIO | None:
    """Return what holds only whole lines of `path`: the file, or a copy cut short in memory."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    with path.open("rb") as file:
        file.seek(-1, 2)
        if file.read(1) == b"\n":
            return path
    data = path.read_bytes()
    kept = data[: data.rfind(b"\n") + 1]
    return BytesIO(kept) if kept else None


def _json(path: Path, missing: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else missing
