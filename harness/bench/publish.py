"""The tables of a benchmark as files that can be compared with those of another day or machine.

Invariant: they say what was typed, on what machine and when, and never whose machine it was.
"""

import csv
import io
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from harness.bench.sheet import Sheet, markdown, tidy_rows
from harness.record.machine import machine, versions

HEADER = ("benchmark", "row", "column", "value")


def publish(sheets: Sequence[Sheet], directory: Path, *, command: str) -> tuple[Path, Path]:
    """Write bench.md and bench.csv into `directory`, which is there. Raises `OSError`."""
    page, table = directory / "bench.md", directory / "bench.csv"
    page.write_text(_page(sheets, command), encoding="utf-8")
    table.write_text(_table(sheets), encoding="utf-8")
    return page, table


def _page(sheets: Sequence[Sheet], command: str) -> str:
    facts = machine()
    gibibytes = int(facts["memory_bytes"]) / 2**30
    head = [
        "# Benchmarks",
        "",
        "```sh",
        command,
        "```",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {facts['cpu']}, {facts['usable_cores']} cores,"
        f" {gibibytes:.0f} GiB, {facts['os']}; "
        + ", ".join(f"{name} {version}" for name, version in versions().items()),
        "",
        f"Load average of the last 15 minutes: {os.getloadavg()[2]:.1f}, this benchmark's own 1"
        " included; what is above that was other work, which makes times longer.",
        "",
    ]
    return "\n".join([*head, *(markdown(sheet) for sheet in sheets)])


def _table(sheets: Sequence[Sheet]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for sheet in sheets:
        writer.writerows(tidy_rows(sheet))
    return text.getvalue()
