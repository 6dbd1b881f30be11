"""What a comparison leaves behind: a directory like a run's, with CSV, JSON, plots and one page."""

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from harness.compare import words
from harness.compare.comparison import Comparison, Row
from harness.compare.plots import pictures
from harness.compare.sides import Side
from harness.record.directory import RUN_FILE, RunDirectory, UsageError
from harness.record.strict_json import to_page
from harness.report.page import embedded, template
from harness.report.tables import Table

PAGE_FILE = "compare.html"
COLUMNS = ("metric", "unit", "better", "a", "b", "difference", "difference_low", "difference_high",
           "ratio", "ratio_low", "ratio_high", "word")  # fmt: skip


def write(
    found: Comparison, directory: RunDirectory, *, command: str, exceeded: Sequence[str]
) -> Path:
    """Write everything and return the page. Raises `UsageError` when it cannot be written."""
    drawn = pictures(found)
    html = template("compare.html").render(
        name=directory.path.name,
        headline=words.headline(found),
        kind=_kind(found, exceeded),
        a=found.sides.a.name,
        b=found.sides.b.name,
        exceeded=list(exceeded),
        notes=words.notes(found),
        pictures=embedded(drawn),
        judged=_judged(found),
        singles=_singles(found),
        runs=_runs(found),
        command=command,
    )
    told = record(found)
    files: dict[str, str | bytes] = {f"{picture.name}.png": picture.png for picture in drawn}
    files |= {"compare.csv": _csv(found), "compare.json": to_page(told), PAGE_FILE: html}
    files[RUN_FILE] = to_page({"schema": 1, "run": directory.path.name, "status": "finished",
                               "kind": "compare", "command": command, "runs": told["runs"],
                               "seed": found.seed})  # fmt: skip
    for name, content in files.items():
        lost = directory.write(name, content)
        if lost is not None:
            raise UsageError(f"{directory.path / name}: {lost.reason}; make room")
    return directory.path / PAGE_FILE


def record(found: Comparison) -> dict[str, object]:
    """The comparison as plain data."""
    return {
        "headline": words.headline(found),
        "runs": {name: _origin(side) for name, side in _sides(found)},
        "paired": found.sides.paired,
        "requests": {name: len(side.requests) for name, side in _sides(found)},
        "requests_of_one_alone": dict(zip("ab", found.sides.alone, strict=True)),
        "method": words.METHOD,
        "confidence": found.confidence,
        "resamples": found.resamples,
        "seed": found.seed,
        "metrics": [dict(zip(COLUMNS, _cells(row), strict=True)) for row in found.rows],
        "two_modes": [{"run": mode.side, "metric": mode.metric, **mode.modes._asdict()}
                      for mode in found.modes],
        "notes": words.notes(found),
    }  # fmt: skip


def _kind(found: Comparison, exceeded: Sequence[str]) -> str:
    if exceeded:
        return "violation"
    return "inconclusive" if found.worded("worse") or found.worded("differs") else "pass"


def _cells(row: Row) -> tuple[object, ...]:
    low = high = below = above = None
    if row.interval is not None:
        below, above, low, high, _ = row.interval
    return (row.metric, row.unit, row.better, row.a, row.b, row.difference, low, high, row.ratio,
            below, above, row.word)  # fmt: skip


def _csv(found: Comparison) -> str:
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in found.rows:
        writer.writerow(["" if cell is None or cell != cell else cell for cell in _cells(row)])
    return out.getvalue()


def _judged(found: Comparison) -> Table:
    rows = tuple((*_shown(row), words.spread(row), row.word)
                 for row in found.rows if row.interval is not None)  # fmt: skip
    columns = ("metric", "A", "B", "difference", "change", f"{found.confidence:.0%} interval", "")
    return Table("Metrics", columns, rows, frozenset((1, 2, 3, 4, 5)))


def _singles(found: Comparison) -> Table:
    rows = tuple(_shown(row) for row in found.rows if row.interval is None)
    return Table("Singles", ("metric", "A", "B", "difference", "change"), rows,
                 frozenset((1, 2, 3, 4)))  # fmt: skip


def _shown(row: Row) -> tuple[str, ...]:
    return (row.metric, words.value(row, row.a), words.value(row, row.b), words.difference(row),
            words.change(row.ratio))  # fmt: skip


def _runs(found: Comparison) -> Table:
    a, b = (_origin(side) for _, side in _sides(found))
    rows = tuple((key, str(a[key]), str(b[key])) for key in a)
    changed = {**_changed(found)}
    rows += tuple((f"setting {key}", *pair) for key, pair in changed.items())
    return Table("Runs", ("", "A", "B"), rows)


def _origin(side: Side) -> dict[str, object]:
    run = side.files.run
    return {"run": side.name, "command": run["command"], "clock": run["clock"], "seed": run["seed"],
            "workload_digest": side.digest, "status": run["status"],
            "verdict": side.files.summary.get("verdict", "")}  # fmt: skip


def _changed(found: Comparison) -> dict[str, tuple[str, str]]:
    """The settings that are not alike."""
    a, b = (side.files.run["settings"] for _, side in _sides(found))
    return {key: (str(a.get(key, "not set")), str(b.get(key, "not set")))
            for key in sorted({*a, *b}) if a.get(key) != b.get(key)}  # fmt: skip


def _sides(found: Comparison) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return ("a", found.sides.a), ("b", found.sides.b)
