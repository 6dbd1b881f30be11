"""`bench.py replay RUN`: what a run on the wall clock decided, followed step by step."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from harness.cli.errors import UserError
from harness.record.decisions import BadDecisions, read_decisions
from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.soak.follow import Follower
from harness.soak.live import SilentScreen
from harness.soak.plan import plan_server, plan_traffic
from harness.soak.run import Soak
from harness.soak.settings import Serving, Traffic, Watching
from harness.verdict import Exit


def run(directory: Path) -> int:
    """0 when every decision could be followed to the same digest, 6 at the first that could not.

    Nothing is waited for and, unless the answers were the model's own, nothing computed: times are
    the recorded ones."""
    page, summary = _read(directory, "run.json"), _read(directory, "summary.json")
    if page.get("clock") != "wall" or "trace" not in page.get("settings", {}):
        raise UserError(f"{directory} is no soak on the wall clock: nothing to follow")
    serving, traffic, watching = _settings(page["settings"])
    try:
        decisions = list(read_decisions(directory))
    except BadDecisions as error:
        raise UserError(str(error)) from None
    follower = Follower(iter(decisions))
    with TemporaryDirectory() as folder:
        manifest = Manifest(command="", clock="wall", seed=traffic.seed, settings={}, workload={})
        with Recorder(RunDirectory.create(Path(folder), "followed"), manifest) as recorder:
            soak = Soak(
                plan_server(serving, clock="wall", seed=traffic.seed),
                plan_traffic(traffic),
                watching,
                radix_cache=serving.radix_cache,
                warmup_requests=traffic.warmup_requests,
                recorder=recorder,
                screen=SilentScreen(),
                clock=follower,
            )
            ended = soak.drive()
    if ended.error is not None:
        return _parted(f"step {ended.steps} raised {ended.error!r}")
    if follower.parted is not None:
        return _parted(str(follower.parted))
    if soak.world.digest != summary["digest"]:
        return _parted(
            f"all {ended.steps:,} decisions were followed, to digest {soak.world.digest}; the"
            f" record says {summary['digest']}"
        )
    click.echo(f"FOLLOWED: {ended.steps:,} decisions, digest {soak.world.digest}")
    return Exit.PASS


def _parted(why: str) -> int:
    click.echo(f"DIVERGED: {why}", err=True)
    return Exit.NONDETERMINISM


def _settings(saved: Mapping[str, Any]) -> tuple[Serving, Traffic, Watching]:
    """What the run was told, with nothing to compute where the trace says what is answered."""
    serving, traffic, watching = (_filled(kind, saved) for kind in (Serving, Traffic, Watching))
    if serving.compute == "model":
        if serving.decoding == "trace":
            serving = replace(serving, compute="null")
        else:
            serving = replace(serving, check_logits=0.0)
    return serving, traffic, watching


def _filled(kind: type[Any], saved: Mapping[str, Any]) -> Any:
    known = {field.name: saved[field.name] for field in fields(kind) if field.name in saved}
    if not isinstance(known.get("duration_s", 0.0), int | float):
        known["duration_s"] = inf
    for name in ("components", "set"):
        if name in known:
            known[name] = tuple(tuple(i) if isinstance(i, list) else i for i in known[name])
    return kind(**known)


def _read(directory: Path, name: str) -> dict[str, Any]:
    try:
        page = json.loads((directory / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{directory} holds no finished run: {error}") from None
    assert isinstance(page, dict)
    return page
