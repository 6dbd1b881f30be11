"""`bench.py faults`: the catalogue, and how well the harness finds it."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from harness.cli.console import console
from harness.cli.errors import UserError
from harness.faults import FAULTS, fault_named
from harness.faults.score import FaultScore, Hunted
from harness.faults.score import score as hunt_all
from harness.faults.tables import Ablation, csv_of, detection_plot, markdown_of
from harness.oracles import NAMES
from harness.record.directory import RunDirectory
from harness.record.machine import command_line, machine, versions
from harness.record.strict_json import to_page
from harness.verdict import Exit


def catalogue(as_json: bool) -> None:
    """Every fault with its reference, story and the oracle expected to name it first."""
    rows = [
        {key: value for key, value in asdict(fault).items() if key not in ("apply", "between")}
        for fault in FAULTS.values()
    ]
    if as_json:
        click.echo(json.dumps(rows))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("fault", "family", "oracles", "reference", "summary"):
        table.add_column(column)
    for fault in FAULTS.values():
        oracles = ", ".join(fault.oracles)
        table.add_row(fault.name, fault.family, oracles, fault.reference, fault.summary)
    console().print(table)


def score(as_json: bool, flags: Mapping[str, Any]) -> int:
    """Hunt the faults; 0 when each was found in every campaign, else 4."""
    names = tuple(fault_named(name).name for name in flags["names"]) or tuple(FAULTS)
    _check(flags)
    directory = RunDirectory.create(Path(flags["output_dir"]), flags["tag"])
    rows, hunted = _hunt(names, flags, tuple(flags["without"]))
    ablations = _ablate(names, flags) if flags["ablate"] else []
    summary = _summary(rows, hunted, flags)
    _write(directory, rows, hunted, ablations, summary, flags)
    if as_json:
        click.echo(json.dumps({**summary, "rows": [row._asdict() for row in rows]}))
    else:
        console().print(_table(rows))
        for ablation in ablations:
            click.echo(_ablation_line(ablation))
        click.echo(_headline(summary))
        click.echo(f"  {directory.path}")
    return Exit.PASS if summary["score"] == 1.0 else Exit.THRESHOLD


def _check(flags: Mapping[str, Any]) -> None:
    known = set(NAMES)
    for name in flags["without"]:
        if name not in known:
            raise UserError(f"--without {name!r}: no such oracle; use {', '.join(sorted(known))}")
    if flags["campaigns"] < 1:
        raise UserError(f"--campaigns must be 1 or more, not {flags['campaigns']}")


def _hunt(
    names: tuple[str, ...], flags: Mapping[str, Any], without: tuple[str, ...]
) -> tuple[list[FaultScore], list[Hunted]]:
    jobs = flags["jobs"] or len(os.sched_getaffinity(0))
    total, done = len(names) * flags["campaigns"], 0

    def on_hunted(hunted: Hunted) -> None:
        nonlocal done
        done += 1
        if done % 50 == 0 or not hunted.detected:
            note = "" if hunted.detected else f"; {hunted.fault} was not found"
            click.echo(f"{done} of {total} campaigns{note}", err=True)

    return hunt_all(
        names,
        budget_s=flags["budget"],
        campaigns=flags["campaigns"],
        seed=flags["seed"],
        jobs=jobs,
        without=without,
        on_hunted=on_hunted,
    )


def _ablate(names: tuple[str, ...], flags: Mapping[str, Any]) -> list[Ablation]:
    """The score without each oracle in turn, one campaign a fault."""
    ablations = []
    for oracle in NAMES:
        click.echo(f"without {oracle} ...", err=True)
        rows, _ = _hunt(names, {**flags, "campaigns": 1}, (oracle,))
        missed = tuple(row.fault for row in rows if not row.detected)
        ablations.append(Ablation(oracle, len(rows) - len(missed), len(rows), missed))
    return ablations


def _summary(
    rows: list[FaultScore], hunted: list[Hunted], flags: Mapping[str, Any]
) -> dict[str, Any]:
    found = [row for row in rows if row.detected == row.campaigns]
    stories = sorted(row.story_steps for row in rows if row.detected)
    return {
        "faults": len(rows),
        "campaigns": flags["campaigns"],
        "budget_s": flags["budget"],
        "score": sum(h.detected for h in hunted) / len(hunted),
        "found_in_every_campaign": len(found),
        "within_1_s": sum(h.detected and h.seconds <= 1 for h in hunted) / len(hunted),
        "within_10_s": sum(h.detected and h.seconds <= 10 for h in hunted) / len(hunted),
        "median_story_steps": stories[len(stories) // 2] if stories else 0,
        "without": list(flags["without"]),
    }


def _write(
    directory: RunDirectory,
    rows: list[FaultScore],
    hunted: list[Hunted],
    ablations: list[Ablation],
    summary: Mapping[str, Any],
    flags: Mapping[str, Any],
) -> None:
    page = {
        "schema": 1,
        "status": "finished",
        "command": command_line(sys.argv),
        "versions": versions(),
        "machine": machine(),
        **summary,
    }
    directory.write("run.json", to_page(page))
    directory.write("summary.json", to_page(summary))
    directory.write("faults.csv", csv_of(rows))
    directory.write("campaigns.csv", csv_of(hunted))
    directory.write("faults.md", markdown_of(rows))
    if ablations:
        directory.write("ablation.csv", csv_of(ablations))
    detection_plot(hunted, flags["budget"], directory.path / "detection.png")


def _table(rows: list[FaultScore]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("fault", "reached", "triggered", "detected", "by", "median, p95 s",
                   "schedules", "story"):  # fmt: skip
        table.add_column(column)
    for r in rows:
        table.add_row(
            r.fault,
            f"{r.reached}/{r.campaigns}",
            f"{r.triggered}/{r.campaigns}",
            f"{r.detected}/{r.campaigns}",
            r.oracle,
            f"{r.median_s:.2f}, {r.p95_s:.2f}",
            f"{r.median_schedules:.0f}, {r.p95_schedules:.0f}",
            f"{r.story_steps} steps, {r.story_tasks} tasks",
        )
    return table


def _ablation_line(ablation: Ablation) -> str:
    missed = f"; missed: {', '.join(ablation.missed)}" if ablation.missed else ""
    return f"without {ablation.oracle}: {ablation.detected} of {ablation.faults} found{missed}"


def _headline(summary: Mapping[str, Any]) -> str:
    return (
        "score {score:.1%}: {found_in_every_campaign} of {faults} faults found in every one of"
        " {campaigns} campaigns; {within_1_s:.1%} within 1 s, {within_10_s:.1%} within 10 s; median"
        " story {median_story_steps} steps".format(**summary)
    )
