"""`bench.py load`: flags in, a server loaded, a run directory out."""

# Locust patches the standard library for gevent, so it is imported before all else.
import locust  # isort: skip

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from http.client import HTTPException
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from harness.cli import calibrate
from harness.cli.durations import text_of
from harness.cli.errors import UserError
from harness.cli.load_crew import crew_maker, work_for_master
from harness.cli.serving import settings_of, typed
from harness.cli.traffic import announce
from harness.load.asker import Asker
from harness.load.crew import Crew
from harness.load.exchange import Line
from harness.load.master import NoWorkers
from harness.load.run import Loaded, LoadRun
from harness.load.settings import Loading
from harness.load.tally import Sink, Tally
from harness.record.directory import RunDirectory
from harness.record.machine import command_line
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.soak.plan import TrafficPlan, plan_traffic, time_scale_of
from harness.soak.settings import Traffic
from harness.soak.traces import caveat
from harness.verdict import EXIT_OF, Exit

FIRST_WORD_S = 10.0
NOTED = ("page_size", "processes", "master", "expect_workers")
UNBOUNDED = ("check_output", "check_counts", "output_len")  # 0 means something


def run(context: click.Context, flags: dict[str, Any]) -> int:
    """Plan, load, tell. Returns the exit code."""
    if flags["worker"]:
        return work_for_master(flags)
    if flags["calibrate"]:
        return calibrate.run(context, flags, settings_of(Loading, flags))
    asked = what_is_asked(context, flags)
    crew_of = crew_maker(
        context, flags, asked.loading, asked.traffic, asked.plan, model=asked.model
    )
    return conduct(asked, flags, crew_of)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the flags come to, before anything is sent."""

    traffic: Traffic
    loading: Loading
    plan: TrafficPlan
    model: str


def what_is_asked(context: click.Context, flags: Mapping[str, Any]) -> Asked:
    """Raises `UserError` and the like for what cannot be."""
    traffic: Traffic = settings_of(Traffic, flags)
    loading: Loading = settings_of(Loading, flags)
    if traffic.workload and typed(context, "trace"):
        raise UserError("--trace and --workload exclude each other: drop one of them")
    _check(loading, flags)
    plan = plan_traffic(traffic)
    return Asked(traffic, loading, plan, loading.model or _first_model(loading, flags["api_key"]))


def conduct(asked: Asked, flags: Mapping[str, Any], crew_of: Callable[[Sink], Crew]) -> int:
    """Load, record, tell. Returns the exit code."""
    directory = RunDirectory.create(Path(flags["output_dir"]), flags["tag"])
    announce(asked.plan.workload.source)
    manifest = _manifest(asked.traffic, asked.loading, asked.plan, asked.model, flags)
    warmup, page_size = asked.traffic.warmup_requests, flags["page_size"]
    with Recorder(directory, manifest, epoch=datetime.now(UTC)) as recorder:
        tally = Tally(recorder, page_size=page_size, warmup_requests=warmup)
        asker = Asker(asked.loading, model=asked.model, api_key=flags["api_key"])
        try:
            loaded = LoadRun(crew_of(tally), asker, tally, recorder, seed=asked.traffic.seed).run()
        except NoWorkers as error:
            raise UserError(str(error)) from None
    _tell(loaded, flags["json"])
    return Exit.INTERRUPTED if loaded.interrupted else EXIT_OF[loaded.verdict]


def _check(loading: Loading, flags: Mapping[str, Any]) -> None:
    parts = urlsplit(loading.base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"--base-url {loading.base_url}: use http://HOST:PORT")
    for field in fields(Loading):
        value = getattr(loading, field.name)
        if field.name not in UNBOUNDED and value in (0, 0.0):
            raise UserError(f"--{field.name.replace('_', '-')} must be above 0")
    if loading.users < 0 or loading.output_len < 0 or flags["page_size"] < 1:
        raise UserError("--users, --output-len and --page-size must not be negative or 0")


def _first_model(loading: Loading, api_key: str) -> str:
    """What the server lists first; a server that does not answer is a user's mistake."""
    line = Line(loading.base_url, api_key=api_key, timeout_s=FIRST_WORD_S)
    try:
        status, text = line.fetch("GET", "/v1/models")
        return str(json.loads(text)["data"][0]["id"]) if status == 200 else _no(loading, text)
    except (OSError, HTTPException, ValueError, LookupError) as error:
        return _no(loading, str(error) or type(error).__name__)
    finally:
        line.close()


def _no(loading: Loading, said: str) -> str:
    raise UserError(f"--base-url {loading.base_url} lists no model ({said[:100]}): start a server"
                    " there, or give --model")  # fmt: skip


def _manifest(
    traffic: Traffic,
    loading: Loading,
    plan: TrafficPlan,
    model: str,
    flags: Mapping[str, Any],
) -> Manifest:
    settings = {**asdict(traffic), **asdict(loading), "model": model}
    settings["time_scale"] = time_scale_of(traffic)
    settings |= {name: flags[name] for name in NOTED}
    settings["locust"] = str(locust.__version__)
    if traffic.duration_s == inf:
        settings["duration_s"] = text_of(inf)
    return Manifest(
        command=command_line(sys.argv),
        clock="wall",
        seed=traffic.seed,
        settings=settings,
        workload={
            **plan.workload.source,
            "name": plan.workload.name,
            "digest": plan.workload.digest(),
            "arrivals": plan.arrivals,
        },
        notes=(
            "Measured by the client: TTFT from the last byte of the request handed to the system"
            " to the read that brought the first content.",
            "Prompts are the workload's; what the server answers is put into no later prompt, and"
            " aborts of the workload are not carried out.",
            *filter(None, [caveat(plan.workload.source)]),
        ),
    )


def _tell(loaded: Loaded, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**loaded.summary, "run": loaded.recorded.directory.path.name}))
        return
    summary: dict[str, Any] = dict(loaded.summary)
    click.echo(f"{loaded.verdict.value.upper()}: {loaded.reason}")
    click.echo(
        "  requests {completed:,} completed, {rejected:,} refused, {failed:,} failed,"
        " {dropped_requests:,} dropped in {duration_s:,.1f} s".format(**summary)
    )
    click.echo(
        "  TTFT p50 {median_ttft_ms:,.1f} ms, p99 {p99_ttft_ms:,.1f} ms; from the schedule"
        " {median_ttft_scheduled_ms:,.1f} and {p99_ttft_scheduled_ms:,.1f} ms".format(**summary)
    )
    click.echo(
        "  prefix_token_hit_rate {prefix_token_hit_rate:.4f} of at most"
        " {ideal_token_hit_rate:.4f}".format(**summary)
    )
    for loss in loaded.recorded.lost:
        click.echo(f"  lost: {loss.sentence()}", err=True)
    click.echo(f"  {loaded.report or loaded.recorded.directory.path}")
