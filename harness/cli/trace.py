"""`bench.py trace FILE`: what a trace is, and the same in Mooncake's form."""

import json
from dataclasses import asdict
from typing import Any

import click
from rich.table import Table

from harness.cli.console import console
from harness.soak.plan import read_trace
from harness.soak.settings import Traffic
from harness.soak.traces import caveat, how_read
from harness.verdict import Exit
from workloads.traces.outline import Outline, outline
from workloads.traces.recorded import RecordedTrace
from workloads.traces.writer import write_mooncake

BLOCK_SIZE = 16  # divides the usual page sizes, so that nothing shared is lost


def run(flags: dict[str, Any]) -> int:
    """Read, count, tell, write. Returns the exit code."""
    traffic = Traffic(
        trace=flags["file"],
        trace_format=flags["trace_format"],
        block_size=flags["block_size"],
        lenient=flags["lenient"],
        time_scale=1.0,
    )
    trace = read_trace(traffic)
    written = _write(trace, flags) if flags["to"] else {}
    found = outline(trace, flags["page_size"])
    note = caveat(trace.source)
    if flags["json"]:
        click.echo(json.dumps({**trace.source, **asdict(found), "note": note, **written}))
        return Exit.PASS
    click.echo(how_read(trace.source))
    console().print(_table(found))
    for line in filter(None, [*_facts(found), note]):
        click.echo(line)
    if written:
        click.echo(
            f"written to {written['to']}: Mooncake's form, times in ms, blocks of"
            f" {written['to_block_size']} tokens"
        )
    return Exit.PASS


def _write(trace: RecordedTrace, flags: dict[str, Any]) -> dict[str, str | int]:
    own = trace.source["block_size"]
    size = flags["to_block_size"] or (own if isinstance(own, int) else BLOCK_SIZE)
    write_mooncake(trace, flags["to"], block_size=size)
    return {"to": flags["to"], "to_block_size": size}


def _table(found: Outline) -> Table:
    table = Table("what", "mean", "p50", "p90", "p99", "max", "total")
    for name, lengths in (("prompt", found.prompt_tokens), ("output", found.output_tokens)):
        shares = (lengths.p50, lengths.p90, lengths.p99, lengths.max, lengths.total)
        table.add_row(f"{name} tokens", f"{lengths.mean:,.1f}", *(f"{n:,.0f}" for n in shares))
    return table


def _facts(found: Outline) -> list[str]:
    hits = f"ideal_token_hit_rate {found.ideal_token_hit_rate:.4f} in pages of {found.page_size}"
    if found.ideal_block_hit_rate is not None:
        hits += f", ideal_block_hit_rate {found.ideal_block_hit_rate:.4f}"
    return [
        f"{found.requests:,} requests in {found.sessions:,} sessions over {found.span_s:,.1f} s;"
        f" {found.turns_max:,} turns at most, {found.closed_loop:,} requests wait for the turn"
        " before",
        hits,
    ]
