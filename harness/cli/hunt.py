"""`bench.py hunt`: search, shrink, tell, certify."""

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from harness.cli import sweep as sweep_command
from harness.cli.certificate import evidence
from harness.cli.certificate import screen as certificate_screen
from harness.cli.errors import UserError
from harness.explore.campaign import Report, strategy_named, towards
from harness.explore.marks import Certificate, certify
from harness.explore.strategies import pct_bound
from harness.faults import fault_named
from harness.hunt.exhaustive import search_exhaustively
from harness.hunt.findings import Told, keep, screen_of, tool, work_out
from harness.hunt.scenarios import load_scenario
from harness.hunt.screen import text_of
from harness.hunt.workers import HuntInterrupted, Pulse, Search, hunt
from harness.record.directory import RunDirectory
from harness.record.machine import command_line, machine, versions
from harness.record.strict_json import to_page
from harness.targets.choose import (
    REFERENCE,
    check_target,
    meanings_of,
    required_of,
    version_in,
)
from harness.targets.sglang.environment import MissingRelease, check_known
from harness.targets.sglang.hold import Held, held_of
from harness.verdict import Exit

MOST_TOLD = 8


def run(flags: Mapping[str, Any]) -> int:
    """Hunt as told. Returns the exit code."""
    if flags["sweep"]:
        _check_target(flags)
        return sweep_command.run(flags)
    search, jobs = _search(flags)
    if flags["exhaustive"]:
        return _exhaustive(search, flags)
    directory = RunDirectory.create(Path(flags["output_dir"]), flags["tag"])
    board = _Board(search, jobs, quiet=flags["json"])
    interrupted = False
    try:
        with board:
            report = hunt(search, jobs, board.show)
    except HuntInterrupted as stop:
        report, interrupted = stop.report, True
    told = _work_out(report, search, flags)
    paths = [keep(one, directory.path / "findings", _prefix(search)) for one in told]
    certificate = certify(
        report.marks, violations=len(report.findings), required=dict.fromkeys(required(search), 1)
    )
    summary = _summary(report, certificate, told, search, jobs)
    _write(directory, summary, report, search, told, interrupted=interrupted)
    _tell(told, paths, certificate, report, summary, flags["json"])
    if report.unrepeatable:
        return Exit.NONDETERMINISM
    return Exit.INTERRUPTED if interrupted else Exit(certificate.exit_code)


def _prefix(search: Search) -> str:
    return search.fault if search.target == REFERENCE else search.target.replace("==", "-")


def required(search: Search) -> tuple[str, ...]:
    """What a hunt over the whole swarm must have seen; a given scenario or a fault need not."""
    if search.scenario is not None or search.fault or search.towards:
        return ()
    known = {m.mark for m in meanings_of(search.target)}
    return tuple(mark for mark in required_of(search.target, dict(search.held)) if mark in known)


def _search(flags: Mapping[str, Any]) -> tuple[Search, int]:
    if flags["fault"]:
        fault_named(flags["fault"])
    _check_target(flags)
    try:
        strategy_named(flags["strategy"])
    except ValueError as error:
        raise UserError(f"--strategy: {error}") from None
    try:
        aim = towards(flags["towards"]) if flags["towards"] else None
    except ValueError as error:
        raise UserError(f"--towards: {error}") from None
    jobs = flags["jobs"] or len(os.sched_getaffinity(0))
    if jobs < 1:
        raise UserError(f"--jobs must be 1 or more, not {jobs}")
    scenario = load_scenario(Path(flags["scenario"])) if flags["scenario"] else None
    fault = flags["fault"] or (scenario or {}).get("fault", "")
    search = Search(
        grain=scenario["grain"] if scenario else flags["grain"],
        strategy=aim.name if aim is not None else flags["strategy"],
        towards=flags["towards"],
        fault=fault,
        seed=flags["seed"],
        budget_s=flags["budget"],
        scenario=scenario,
        keep_going=flags["keep_going"],
        storage_share=flags["storage_share"],
        ranks_share=flags["ranks_share"],
        target=flags["target"],
        held=_held(flags),
        until=flags["until"],
    )
    return search, jobs


def _held(flags: Mapping[str, Any]) -> Held:
    if not flags["hold"]:
        return ()
    if flags["target"] == REFERENCE:
        raise UserError("--hold is for releases, such as --target sglang==0.5.12")
    try:
        return held_of(flags["hold"], check_known(version_in(flags["target"])))
    except ValueError as error:
        raise UserError(f"--hold: {error}") from None


def _check_target(flags: Mapping[str, Any]) -> None:
    """A release is hunted as it is, over its own swarm."""
    try:
        check_target(flags["target"])
    except (ValueError, MissingRelease) as error:
        raise UserError(f"--target: {error}") from None
    if flags["target"] != REFERENCE:
        for name in ("fault", "scenario", "exhaustive", "sweep"):
            if flags[name]:
                raise UserError(f"--{name} is for the reference cache, not for {flags['target']}")


def _exhaustive(search: Search, flags: Mapping[str, Any]) -> int:
    if search.scenario is None:
        raise UserError("--exhaustive needs a small world: add --scenario FILE")
    found = search_exhaustively(search.scenario, search.fault, budget_s=search.budget_s)
    if flags["json"]:
        click.echo(json.dumps(found.record()))
    else:
        click.echo(str(found.result))
        for one in found.told:
            click.echo(text_of(screen_of(one, "bench.py hunt --exhaustive")))
    if found.told:
        return Exit.VIOLATION
    return Exit.PASS if found.result.complete else Exit.INCONCLUSIVE


def _work_out(report: Report, search: Search, flags: Mapping[str, Any]) -> list[Told]:
    wanted = [one for kind, one in report.findings.items() if search.wants(kind)]
    findings = sorted(wanted, key=lambda f: f.elapsed_s)[:MOST_TOLD]
    if findings and not flags["json"]:
        click.echo(f"shrinking {len(findings)} of {len(report.findings)} kinds ...", err=True)
    shrink_s = flags["shrink"]
    return [
        work_out(one, search.fault, target=search.target, shrink_s=shrink_s) for one in findings
    ]


class _Board:
    """What a person sees: a line that lives on a terminal, one now and then elsewhere."""

    def __init__(self, search: Search, jobs: int, *, quiet: bool) -> None:
        self._search, self._jobs, self._quiet = search, jobs, quiet
        self._pulses: dict[int, Pulse] = {}
        self._console = Console(stderr=True)
        self._live: Live | None = None
        self._last = float("-inf")

    def __enter__(self) -> "_Board":
        if self._console.is_terminal and not self._quiet:
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*error)

    def show(self, pulse: Pulse, elapsed_s: float) -> None:
        self._pulses[pulse.job] = pulse
        if self._quiet:
            return
        line = self._line(elapsed_s)
        if self._live is not None:
            self._live.update(line)
        elif time.monotonic() - self._last >= 10:
            self._last = time.monotonic()
            click.echo(line, err=True)

    def _line(self, elapsed_s: float) -> str:
        pulses = self._pulses.values()
        schedules = sum(p.schedules for p in pulses)
        kinds = {kind for p in pulses for kind in p.kinds}
        known = len(meanings_of(self._search.target))
        return (
            f"{elapsed_s:,.0f} of {self._search.budget_s:,.0f} s | {schedules:,} schedules,"
            f" {schedules / max(elapsed_s, 1e-9):,.0f}/s on {self._jobs} cores | findings"
            f" {len(kinds)} | marks {max(p.marks for p in pulses)} of {known} | unseen"
            f" {min(p.unseen_mass for p in pulses):.1%}"
        )


def _summary(
    report: Report, certificate: Certificate, told: list[Told], search: Search, jobs: int
) -> dict[str, Any]:
    seconds = max(report.elapsed_s, 1e-9)
    choices = max(1, report.choices)
    return {
        "verdict": "nondeterminism" if report.unrepeatable else certificate.verdict,
        "schedules": report.schedules,
        "schedules_per_s": report.schedules / seconds,
        "steps": report.steps,
        "steps_per_s": report.steps / seconds,
        "repeated": report.repeated,
        "unrepeatable": len(report.unrepeatable),
        "elapsed_s": report.elapsed_s,
        "jobs": jobs,
        "target": search.target,
        "fault": search.fault,
        "grain": search.grain,
        "strategy": search.strategy,
        "towards": _towards(search, report),
        "by_strategy": report.by_strategy,
        "unseen_mass": certificate.unseen_mass,
        "failure_bound_95": certificate.failure_bound if not report.findings else None,
        "pct_bound": {
            f"depth {depth}": pct_bound(
                depth=depth,
                tasks=max(1, report.tasks),
                choices=choices,
                runs=report.by_strategy.get("pct", 0),
            )
            for depth in (2, 3, 4)
        },
        "missing_marks": [missing.name for missing in certificate.missing],
        **evidence(report.marks, search.target),
        "kinds": report.hits,
        "findings": [
            {
                "kind": one.kind,
                "seconds": one.seconds,
                "schedule": one.schedule,
                "strategy": one.strategy,
                "steps": one.shrunk.after.steps,
                "tasks": one.shrunk.after.tasks,
                "switches": one.shrunk.after.switches,
                "stable": one.shrunk.stable,
                "passes_if": str(one.shrunk.neighbour) if one.shrunk.neighbour else "",
            }
            for one in told
        ],
    }


def _towards(search: Search, report: Report) -> dict[str, Any] | None:
    """In how many schedules the order that was headed for came about."""
    if not search.towards:
        return None
    order = tuple(name.strip() for name in search.towards.split("->"))
    seen = [*report.marks.pairs.items(), *report.marks.triples.items()]
    return {"order": " -> ".join(order), "schedules": sum(n for which, n in seen if which == order)}


def _write(
    directory: RunDirectory,
    summary: Mapping[str, Any],
    report: Report,
    search: Search,
    told: list[Told],
    *,
    interrupted: bool,
) -> None:
    manifest = {
        "schema": 1,
        "status": "interrupted" if interrupted else "finished",
        "command": command_line(sys.argv),
        "tool": tool(),
        "search": asdict(search),
        "versions": versions(),
        "machine": machine(),
    }
    marks = report.marks
    directory.write("run.json", to_page(manifest))
    directory.write("summary.json", to_page(summary))
    directory.write(
        "marks.json",
        to_page(
            {
                "sometimes": {
                    m.mark: marks.sometimes.get(m.mark, 0) for m in meanings_of(search.target)
                },
                "transitions": dict(marks.transitions),
                "points": dict(marks.points),
                "pairs": {" -> ".join(pair): n for pair, n in marks.pairs.items()},
                "triples": {" -> ".join(triple): n for triple, n in marks.triples.items()},
            }
        ),
    )
    stories = "\n".join(text_of(screen_of(one, "see findings/")) for one in told)
    if stories:
        directory.write("stories.txt", stories)


def _tell(
    told: list[Told],
    paths: list[Path],
    certificate: Certificate,
    report: Report,
    summary: Mapping[str, Any],
    as_json: bool,
) -> None:
    if as_json:
        click.echo(json.dumps(summary))
        return
    console = Console()
    for one, path in zip(told, paths, strict=True):
        console.print(screen_of(one, f"python bench.py replay {path}"))
        console.print()
    for odd in report.unrepeatable[:3]:
        console.print(f"NOT REPEATABLE: {odd.problem} (schedule {odd.schedule}, seed {odd.seed})")
    if not told:
        console.print(certificate_screen(report.marks, summary["target"]))
    console.print(_verdict_line(certificate, report, summary))


def _verdict_line(certificate: Certificate, report: Report, summary: Mapping[str, Any]) -> str:
    line = (
        f"{summary['verdict'].upper()}: {report.schedules:,} schedules in"
        f" {report.elapsed_s:,.1f} s,"
        f" {len(report.marks.pairs):,} ordered pairs, {len(report.marks.triples):,} triples,"
        f" {certificate.unseen_mass:.2%} of the orders estimated unseen"
    )
    if summary["towards"]:
        line += "; {order} in {schedules:,} of them".format(**summary["towards"])
    if certificate.verdict == "pass":
        line += f"; at 95 % fewer than {certificate.failure_bound:.2g} of schedules fail"
    if certificate.missing:
        line += "; missing: " + ", ".join(missing.name for missing in certificate.missing)
    return line
