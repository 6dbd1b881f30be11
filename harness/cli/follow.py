"""`bench.py replay RUN`: what a run on the wall clock decided, followed step by step."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import click

from harness.cli.errors import UserError
from harness.engine.overlap import Overlap
from harness.ranks.recorded import BadAgreements, RecordedParty, read_agreements
from harness.record.decisions import BadDecisions, read_decisions
from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.soak.follow import Follower
from harness.soak.live import SilentScreen
from harness.soak.plan import overlap_of, plan_server, plan_traffic
from harness.soak.run import Soak
from harness.soak.settings import Serving, Traffic, Watching
from harness.verdict import Exit


class SavedRun(NamedTuple):
    """What a run was told, and what it came to."""

    serving: Serving
    traffic: Traffic
    watching: Watching
    digest: str


def run(directory: Path) -> int:
    """0 when every decision could be followed to the same digest, 6 at the first that could not.

    Nothing is waited for and, unless the answers were the model's own, nothing computed: times are
    the recorded ones."""
    serving, traffic, watching, digest = saved_run(directory)
    several = serving.compute == "model" and serving.tp > 1
    serving = _with_nothing_to_compute(serving)
    try:
        decisions = list(read_decisions(directory))
        agreements = list(read_agreements(directory)) if several else []
    except (BadDecisions, BadAgreements) as error:
        raise UserError(str(error)) from None
    follower = Follower(iter(decisions))
    party = RecordedParty(serving.tp, iter(agreements)) if several else None
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
                party=party,
            )
            ended = soak.drive()
    if ended.error is not None:
        return _parted(f"step {ended.steps} raised {ended.error!r}")
    if follower.parted is not None:
        return _parted(str(follower.parted))
    if soak.world.digest != digest:
        return _parted(
            f"all {ended.steps:,} decisions were followed, to digest {soak.world.digest};"
            f" the record says {digest}"
        )
    click.echo(f"FOLLOWED: {ended.steps:,} decisions, digest {soak.world.digest}")
    return Exit.PASS


def _parted(why: str) -> int:
    click.echo(f"DIVERGED: {why}", err=True)
    return Exit.NONDETERMINISM


def saved_run(directory: Path) -> SavedRun:
    """Raises `UserError` where the directory is not that of a soak on the wall clock."""
    page, summary = _read(directory, "run.json"), _read(directory, "summary.json")
    settings = page.get("settings", {})
    if page.get("clock") != "wall" or "trace" not in settings or "digest" not in summary:
        raise UserError(f"{directory} is no soak on the wall clock")
    return SavedRun(
        serving=_as_it_was(_filled(Serving, settings), settings),
        traffic=_filled(Traffic, settings),
        watching=_filled(Watching, settings),
        digest=summary["digest"],
    )


def _as_it_was(serving: Serving, settings: Mapping[str, Any]) -> Serving:
    """With what it left to the clock said. Runs that do not name the overlap had none."""
    known = "load_back_overlap" in settings
    overlap = overlap_of(serving, "wall") if known else Overlap.NONE
    return replace(serving, load_back_overlap=overlap.value)


def _with_nothing_to_compute(serving: Serving) -> Serving:
    """Unless what is computed decides what comes next: the model's own answers, or how many bytes
    storage was given, by which it gives up others. It begins empty here, in memory."""
    if serving.compute != "model":
        return serving
    if serving.hicache_storage_backend:
        serving = replace(serving, hicache_storage_backend="memory", storage_path="")
    elif serving.decoding == "trace":
        return replace(serving, compute="null")
    return replace(serving, check_logits=0.0, tp=1)  # the whole model says what its ranks said


def _filled(kind: type[Any], saved: Mapping[str, Any]) -> Any:
    known = {field.name: saved[field.name] for field in fields(kind) if field.name in saved}
    if not isinstance(known.get("duration_s", 0.0), int | float):
        known["duration_s"] = inf
    if known.get("request_rate") == "inf":
        known["request_rate"] = inf
    for name in ("components", "companions", "set"):
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
