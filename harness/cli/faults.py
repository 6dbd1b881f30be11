"""`bench.py faults`: the catalogue, and how well the harness finds it."""

import json
from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table

from harness.faults import FAULTS


def catalogue(as_json: bool) -> None:
    """Every fault with its reference, story and the oracle expected to name it first."""
    rows = [
        {key: value for key, value in asdict(fault).items() if key != "apply"}
        for fault in FAULTS.values()
    ]
    if as_json:
        click.echo(json.dumps(rows))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("fault", "family", "oracles", "reference", "summary"):
        table.add_column(column)
    for fault in FAULTS.values():
        table.add_row(
            fault.name, fault.family, ", ".join(fault.oracles), fault.reference, fault.summary
        )
    Console().print(table)
