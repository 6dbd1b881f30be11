"""`bench.py compare A B`: two run directories in, a table, a page and an exit code out."""

import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from harness.compare import words
from harness.compare.comparison import Comparison, compare
from harness.compare.page import record, write
from harness.compare.sides import pair, read_side
from harness.record.directory import RunDirectory
from harness.record.machine import command_line
from harness.record.strict_json import plain
from harness.verdict import Exit

STYLES = {"worse": "red", "better": "green", "differs": "blue"}
TABLE_WIDTH = 126  # a narrower terminal wraps lines, which beats numbers cut short


def run(flags: dict[str, Any]) -> int:
    """Read, compare, write, tell. Returns the exit code."""
    a, b = read_side(Path(flags["a"])), read_side(Path(flags["b"]))
    sides = pair(a, b, different_workloads=flags["different_workloads"])
    found = compare(
        sides, confidence=flags["confidence"], resamples=flags["resamples"], seed=flags["seed"]
    )
    limit = flags["fail_if_worse"]
    exceeded = [row.metric for row in found.rows if limit is not None and row.worse_by(limit)]
    directory = RunDirectory.create(Path(flags["output_dir"]), flags["tag"])
    page = write(found, directory, command=command_line(sys.argv), exceeded=exceeded)
    if flags["json"]:
        told = {**record(found), "exceeded": exceeded, "run": directory.path.name}
        click.echo(json.dumps(plain(told)))
    else:
        _tell(found, exceeded, page)
    return Exit.THRESHOLD if exceeded else Exit.PASS


def _tell(found: Comparison, exceeded: list[str], page: Path) -> None:
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    console.print(words.headline(found), style="bold", highlight=False)
    console.print(f"A {found.sides.a.name}\nB {found.sides.b.name}", highlight=False)
    console.print(_table(found))
    for note in words.notes(found):
        console.print(note, style="dim", highlight=False)
    if exceeded:
        console.print(f"worse by more than allowed: {', '.join(exceeded)}", style="red")
    click.echo(f"  {page}")


def _table(found: Comparison) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("metric", "A", "B", "difference", "change", "interval", ""):
        table.add_column(name, justify="left" if name in ("metric", "") else "right", no_wrap=True)
    for row in found.rows:
        table.add_row(
            row.metric, words.value(row, row.a), words.value(row, row.b), words.difference(row),
            words.change(row.ratio), words.spread(row),
            row.word if row.word in STYLES else "", style=STYLES.get(row.word),
        )  # fmt: skip
    return table
