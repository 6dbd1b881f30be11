"""`bench.py hunt --sweep`: one trouble at a time, at every place of a base schedule."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from harness.cli.errors import UserError
from harness.faults import fault_named
from harness.hunt.bases import INTERRUPTED, Sweep, Tally, sweep_all
from harness.hunt.findings import Told, keep, screen_of, tool, work_out
from harness.hunt.scenarios import load_scenarios
from harness.hunt.screen import text_of
from harness.hunt.sweep import KINDS, Swept
from harness.record.directory import RunDirectory
from harness.record.machine import command_line, machine, versions
from harness.record.strict_json import to_page
from harness.verdict import Exit

MOST_TOLD = 8


def run(flags: Mapping[str, Any]) -> int:
    """Sweep as told. Returns the exit code."""
    asked, jobs = _asked(flags)
    directory = RunDirectory.create(Path(flags["output_dir"]), flags["tag"])
    swept = sweep_all(asked, jobs, _Board(asked, quiet=flags["json"]).show)
    found = list(swept.findings.values())[:MOST_TOLD]
    if found and not flags["json"]:
        click.echo(f"shrinking {len(found)} of {len(swept.findings)} kinds ...", err=True)
    faults = [asked.fault or finding.scenario.get("fault", "") for finding in found]
    told = [work_out(finding, fault) for finding, fault in zip(found, faults, strict=True)]
    folder = directory.path / "findings"
    paths = [keep(one, folder, fault) for one, fault in zip(told, faults, strict=True)]
    code = exit_code(asked, swept)
    summary = _summary(asked, swept, told, code)
    _write(directory, asked, summary, told)
    if flags["json"]:
        click.echo(json.dumps(summary))
        return code
    for one, path in zip(told, paths, strict=True):
        Console().print(screen_of(one, f"python bench.py replay {path}"))
    click.echo(str(swept))
    return code


def exit_code(asked: Sweep, swept: Swept) -> Exit:
    """Worlds from files must have been swept completely; drawn ones end with the time."""
    if swept.stopped_at == INTERRUPTED:
        return Exit.INTERRUPTED
    if swept.findings:
        return Exit.VIOLATION
    enough = swept.complete if asked.scenarios else swept.points.total() > 0
    return Exit.PASS if enough else Exit.INCONCLUSIVE


def _asked(flags: Mapping[str, Any]) -> tuple[Sweep, int]:
    if flags["exhaustive"]:
        raise UserError("--sweep and --exhaustive are two searches: choose one")
    if flags["fault"]:
        fault_named(flags["fault"])
    jobs = flags["jobs"] or len(os.sched_getaffinity(0))
    if jobs < 1:
        raise UserError(f"--jobs must be 1 or more, not {jobs}")
    grain, kind = flags["grain"], flags["sweep"]
    return Sweep(
        kinds=KINDS if kind == "all" else (kind,),
        grains=("scheduler", "fine") if grain == "both" else (grain,),
        scenarios=tuple(load_scenarios(Path(flags["scenario"]))) if flags["scenario"] else (),
        fault=flags["fault"],
        seed=flags["seed"],
        budget_s=flags["budget"],
    ), jobs


class _Board:
    """One line of progress: rewritten in a terminal, every ten seconds elsewhere."""

    def __init__(self, asked: Sweep, *, quiet: bool) -> None:
        self._budget_s = asked.budget_s
        self._quiet = quiet
        self._next_s = 0.0
        self._every_s = 0.5 if sys.stderr.isatty() else 10.0

    def show(self, tally: Tally) -> None:
        if self._quiet or not tally.points or tally.elapsed_s < self._next_s:
            return
        self._next_s = tally.elapsed_s + self._every_s
        line = f"{tally.elapsed_s:,.0f} of {self._budget_s:,.0f} s | {tally.points:,} points swept"
        if sys.stderr.isatty():
            line = f"\r{line}\033[K"
        click.echo(line, err=True, nl=not sys.stderr.isatty())


def _summary(asked: Sweep, swept: Swept, told: list[Told], code: Exit) -> dict[str, Any]:
    return {
        "verdict": code.name.lower(),
        "complete": swept.complete,
        "stopped_at": swept.stopped_at,
        "points": swept.points.total(),
        "points_by_kind": {kind: swept.points[kind] for kind in asked.kinds},
        "base_schedules": swept.bases,
        "elapsed_s": swept.elapsed_s,
        "fault": asked.fault,
        "grains": list(asked.grains),
        "kinds": dict(swept.hits),
        "findings": [
            {
                "kind": one.kind,
                "by": one.strategy,
                "steps": one.shrunk.after.steps,
                "tasks": one.shrunk.after.tasks,
                "stable": one.shrunk.stable,
            }
            for one in told
        ],
    }


def _write(
    directory: RunDirectory, asked: Sweep, summary: Mapping[str, Any], told: list[Told]
) -> None:
    manifest = {
        "schema": 1,
        "status": "interrupted" if summary["stopped_at"] == INTERRUPTED else "finished",
        "command": command_line(sys.argv),
        "tool": tool(),
        "sweep": asdict(asked),
        "versions": versions(),
        "machine": machine(),
    }
    directory.write("run.json", to_page(manifest))
    directory.write("summary.json", to_page(summary))
    if told:
        stories = (text_of(screen_of(one, "see findings/")) for one in told)
        directory.write("stories.txt", "\n".join(stories))
