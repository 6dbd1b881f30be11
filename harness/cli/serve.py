"""`bench.py serve`: flags in, a server until it is told to stop, a run directory out."""

import json
import os
import sys
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cache.config import ConfigError
from harness.cli import serve_null
from harness.cli.errors import UserError
from harness.cli.serving import fit_model, launch_of, settings_of, typed
from harness.faults import fault_named
from harness.record.directory import RunDirectory
from harness.record.machine import command_line
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.serve.engine import Engine
from harness.serve.limits import ServeLimits
from harness.serve.server import CannotListen, Served, Server, listen
from harness.serve.tokenizer import FIRST_WORD
from harness.sglang_flags import Launch
from harness.soak.plan import ServerPlan, plan_server
from harness.soak.pools import pools_of
from harness.soak.settings import Serving, Watching
from harness.verdict import EXIT_OF, Exit

_OURS_ALONE = (
    "output_dir",
    "storage_path",
)  # a folder, a URL with a password: no client's business


def run(context: click.Context, flags: dict[str, Any]) -> int:
    """Plan, serve until a signal, tell. Returns the exit code."""
    if flags["null"]:
        return serve_null.run(flags)
    launch = launch_of(context, flags)
    if flags["compute"] == "model":
        _fit_model(context, flags)
    serving: Serving = settings_of(Serving, flags)
    watching: Watching = settings_of(Watching, flags)
    limits = _limits(flags)
    fault = fault_named(flags["fault"]) if flags["fault"] else None
    if fault is not None and not serving.radix_cache:
        raise UserError("--fault is a defect of the radix cache: drop --disable-radix-cache")
    plan = plan_of(serving)
    if plan.model is not None and plan.model.device == "cpu":
        _compute_alone()
    try:
        sock = listen(flags["host"], flags["port"])
    except CannotListen as error:
        raise UserError(str(error)) from None
    directory = RunDirectory.create(Path(watching.output_dir), watching.tag)
    settings = _settings(serving, watching, limits, plan, flags)
    manifest = _manifest(serving, plan, settings, launch)
    storage = None if plan.storage is None else plan.storage.open(directory.path / "storage")
    with Recorder(directory, manifest, epoch=datetime.now(UTC)) as recorder:
        engine = Engine(
            plan,
            recorder,
            oracles=watching.oracles,
            radix_cache=serving.radix_cache,
            storage=storage,
            fault=fault,
        )
        key = flags["api_key"]
        info = {name: settings[name] for name in settings if name not in _OURS_ALONE}
        server = Server(engine, recorder, sock, limits=limits, info=info, api_key=key)
        served = server.run(lambda url: _announce(url, plan, flags["json"]))
    if storage is not None:
        storage.close()
    _tell(served, flags["json"])
    return Exit.RUN_FAILED if served.failed is not None else EXIT_OF[served.verdict]


def _fit_model(context: click.Context, flags: dict[str, Any]) -> None:
    from harness.model.sampling import Decoding  # torch, for those who compute

    fit_model(context, flags)
    if not typed(context, "decoding"):
        flags["decoding"] = Decoding.GREEDY.value
    elif flags["decoding"] == Decoding.TRACE:
        raise UserError("there is no trace to answer from here: use --decoding greedy or sampled")


def plan_of(serving: Serving) -> ServerPlan:
    """On the wall clock, with answers of words: bytes of their own make no text. Raises
    `ConfigError`."""
    if serving.compute == "model" and serving.tp != 1:
        raise ConfigError("serve computes on one rank: add --tp 1")
    clock = "wall" if serving.compute == "model" else "virtual"  # where others' times come from
    return plan_server(serving, clock=clock, first_token=FIRST_WORD)


def _compute_alone() -> None:
    """Matrices are small here: threads that wait cost more than they do."""
    import torch  # a server that computes nothing starts without it

    torch.set_num_threads(1)


def _limits(flags: dict[str, Any]) -> ServeLimits:
    limits: ServeLimits = settings_of(ServeLimits, flags)
    for field in fields(limits):
        if getattr(limits, field.name) <= 0:
            flag = field.name.removesuffix("_s").replace("_", "-")
            raise UserError(f"--{flag} must be above 0")
    return limits


def _settings(
    serving: Serving,
    watching: Watching,
    limits: ServeLimits,
    plan: ServerPlan,
    flags: dict[str, Any],
) -> dict[str, object]:
    """What `/get_server_info` and `run.json` say; the key is in neither."""
    return {
        **asdict(serving),
        **asdict(watching),
        **asdict(limits),
        "clock": "wall",
        "fault": flags["fault"],
        "components": [c.name.lower() for c in plan.config.components],
        "window": plan.config.window,
        "served_model_name": plan.shape.name,
        "max_total_num_tokens": plan.sizing.device_tokens,
        "tokenizer": "a byte is a token; ' t1234' is token 1234",
    }


def _manifest(
    serving: Serving, plan: ServerPlan, settings: dict[str, object], launch: Launch
) -> Manifest:
    config = plan.config
    notes = [f"Model shape: {plan.shape.source}.", *_compute_notes(serving, plan)]
    if serving.tp > 1:
        notes.append(
            f"TP {serving.tp}: every rank has a cache of its own, all in this process; metrics,"
            " hits and bytes are those of one rank."
        )
    return Manifest(
        command=command_line(sys.argv),
        clock="wall",
        seed=0,
        settings=settings,
        workload={"name": "whatever clients sent", "digest": "", "arrivals": "those of clients"},
        pools=pools_of(config),
        notes=tuple(notes),
        ignored_flags=launch.ignored,
    )


def _compute_notes(serving: Serving, plan: ServerPlan) -> list[str]:
    if plan.model is not None:
        return [
            f"A model with random weights is computed on {plan.model.device}; answers are what it"
            f" decides ({plan.model.decoding}). Forwards, copies and bytes are real.",
            f"N1 recomputes the logits of {plan.model.check_logits:.0%} of all requests.",
        ]
    return [
        "Requests, waits and tokens are real; how long forwards and copies take is modelled"
        f" (--compute {serving.compute}) and then really waited for. No byte of KV is moved.",
        "There is no model: answers are pseudo-random tokens named by the prompt and by what was"
        " read from the cache.",
    ]


def _announce(url: str, plan: ServerPlan, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"url": url, "model": plan.shape.name, "pid": os.getpid()}))
    else:
        click.echo(f"serving {plan.shape.name} at {url}/v1 (Ctrl-C ends it)")
    sys.stdout.flush()


def _tell(served: Served, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**served.summary, "run": served.recorded.directory.path.name}))
        return
    summary: dict[str, Any] = dict(served.summary)
    click.echo(f"{served.verdict.value.upper()}: {served.reason}")
    click.echo(
        "  requests {completed:,} completed, {rejected:,} rejected, {aborted:,} aborted".format(
            **summary
        )
    )
    click.echo(
        "  TTFT p50 {median_ttft_ms:,.1f} ms, p99 {p99_ttft_ms:,.1f} ms; prefix_token_hit_rate"
        " {prefix_token_hit_rate:.4f}".format(**summary)
    )
    for loss in served.recorded.lost:
        click.echo(f"  lost: {loss.sentence()}", err=True)
    click.echo(f"  {served.report or served.recorded.directory.path}")
