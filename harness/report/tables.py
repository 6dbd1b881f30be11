"""The tables of a report, as text: what a row says is decided here, how it looks in the template.

A table never grows with the run: at most `ROWS_SHOWN` rows, and a line that says how many more
there are and where.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from harness.record.ranks import FILE as RANKS
from harness.record.summary import LATENCY_STEMS, REQUEST_KEYS, RUN_KEYS, STATISTICS, Key, Number
from harness.report.files import RunFiles
from harness.report.quantities import count, duration, percent, size

ROWS_SHOWN = 40
MARKS_SHOWN = 120
VIOLATIONS_SHOWN = 12
CELL_SHOWN = 400


class Table(NamedTuple):
    """`numeric` are the columns that are set flush right; `more` says what was left out, or
    nothing.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    more: str = ""


def latencies(summary: Mapping[str, Number]) -> Table:
    """One row a latency: mean, median, std, p90, p99."""
    rows = [
        (stem, *(duration(_number(summary, f"{name}_{stem}")) for name in STATISTICS), meaning)
        for stem, meaning in LATENCY_STEMS.items()
    ]
    columns = ("latency", *STATISTICS, "what it is")
    return _table("Latencies", columns, rows, numeric=range(1, 6))


def violations(run: RunFiles) -> Table:
    """One row a finding, the first ones."""
    total = int(_number(run.summary, "violations"))
    shown = run.violations[:VIOLATIONS_SHOWN]
    names: tuple[str, ...] = ("oracle", "signature", "expected", "seen", "step", "elapsed_s")
    columns: tuple[str, ...] = ("oracle", "signature", "expected", "seen", "step", "at (s)")
    if any("rank" in found for found in shown):
        names, columns = (*names, "rank"), (*columns, "on rank")
    rows = [tuple(_text(found.get(name, "")) for name in names) for found in shown]
    more = f"{total - len(rows):,} more in violations.jsonl" if total > len(rows) else ""
    return Table("Violations", columns, tuple(rows), frozenset((4, 5)), more)


def marks(run: RunFiles) -> Table:
    """One row a mark; those never reached come first, required ones before the others."""
    ordered = sorted(
        run.marks, key=lambda mark: (mark["count"] > 0, not mark["required"], mark["mark"])
    )
    rows = [
        (
            mark["mark"],
            f"{mark['count']:,}" if mark["count"] else "never",
            "required" if mark["required"] else "",
            mark["meaning"],
        )
        for mark in ordered
    ]
    columns = ("mark", "count", "", "what it means")
    return _table("Marks", columns, rows, numeric=(1,), where="marks.json", limit=MARKS_SHOWN)


def pools(run: RunFiles) -> Table:
    """One row a pool: its size and how full it was at most."""
    rows = []
    for pool in run.run["pools"]:
        name = f"{pool['tier']}_{pool['component'].lower()}_used_pages"
        known = name in run.series and pool["pages"]
        peak = percent(run.series[name].max() / pool["pages"]) if known else "not sampled"
        rows.append(
            (
                f"{pool['tier']} {pool['component'].upper()}",
                f"{pool['pages']:,}",
                size(pool["page_bytes"]),
                size(pool["pages"] * pool["page_bytes"]),
                peak,
            )
        )
    columns = ("pool", "pages", "bytes a page", "size", "fullest sample")
    return _table("Pools", columns, rows, numeric=range(1, 5))


def ranks(run: RunFiles) -> Table:
    """One row a rank that was a process."""
    rows = [
        (
            row["rank"],
            row["status"],
            row["violations"],
            row["logits_checked_requests"],
            row["meetings"],
            duration(1e3 * float(row["meetings_s"])),
            row["late_agreements"],
            duration(1e3 * float(row["forwards_s"])),
            size(float(row["host_written_bytes"])),
            size(float(row["host_read_bytes"])),
            size(float(row["peak_rss_bytes"])),
        )
        for row in run.ranks
    ]
    columns = ("rank", "how it ended", "violations", "N1 requests", "meetings", "waited in them",
               "late in", "in forwards", "backed up", "loaded back", "most memory")  # fmt: skip
    return _table("Ranks", columns, rows, numeric=range(2, 11), where=RANKS)


def tiers(summary: Mapping[str, Number]) -> Table:
    """One row a tier: bytes moved, hits, evictions; the proof that it was used at all."""
    names = ("written_bytes", "read_bytes", "hit_tokens", "evicted_pages")
    rows = [
        (
            tier,
            *(_shown(summary, f"{tier}_{name}") for name in names),
            _shown(summary, f"peak_{tier}_bytes"),
        )
        for tier in ("device", "host", "storage")
        if any(f"{tier}_{name}" in summary for name in names)
    ]
    columns = ("tier", "written", "read", "hit tokens", "evicted pages", "most in use")
    return _table("Tiers", columns, rows, numeric=range(1, 6))


def settings(run: RunFiles) -> Table:
    """Every setting in force."""
    rows = [(name, _text(value)) for name, value in run.run["settings"].items()]
    return _table("Configuration", ("setting", "value"), rows, where="run.json", limit=200)


def origin(run: RunFiles) -> Table:
    """Workload, seed, machine and versions."""
    page = run.run
    machine = {
        name: size(value) if name.endswith("_bytes") else value
        for name, value in page["machine"].items()
    }
    ends = {"status": page["status"], "started": page["started"], "ended": page["ended"]}
    named = {f"workload {name}": value for name, value in page["workload"].items()}
    found = {**ends, "clock": page["clock"], "seed": page["seed"], **named, **machine}
    rows = [(name, _text(value)) for name, value in {**found, **page["versions"]}.items()]
    return _table(
        "Workload, machine, versions", ("what", "value"), rows, where="run.json", limit=60
    )


def every_number(summary: Mapping[str, Number]) -> Table:
    """All keys of summary.json with unit and meaning."""
    known: dict[str, Key] = {**REQUEST_KEYS, **RUN_KEYS}
    skipped = {f"{name}_{stem}" for stem in LATENCY_STEMS for name in STATISTICS}
    rows = [
        (key, _text(value), known.get(key, Key("", "")).unit, known.get(key, Key("", "")).meaning)
        for key, value in summary.items()
        if key not in skipped
    ]
    columns = ("key", "value", "unit", "what it is")
    return _table("All numbers", columns, rows, numeric=(1,), where="summary.json", limit=200)


def _table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[tuple[str, ...]],
    *,
    numeric: Iterable[int] = (),
    where: str = "",
    limit: int = ROWS_SHOWN,
) -> Table:
    left = len(rows) - limit
    more = f"{left:,} more in {where}" if left > 0 else ""
    return Table(title, tuple(columns), tuple(rows[:limit]), frozenset(numeric), more)


def _shown(summary: Mapping[str, Number], key: str) -> str:
    if key not in summary:
        return "not counted"
    value = _number(summary, key)
    return size(value) if key.endswith("_bytes") else count(value)


def _number(summary: Mapping[str, Number], key: str) -> float:
    value = summary.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if abs(value) < 10_000 else f"{value:,}"
    if isinstance(value, float):
        return count(value) if abs(value) >= 1000 else f"{value:.4g}"
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= CELL_SHOWN else text[: CELL_SHOWN - 4] + " ..."
