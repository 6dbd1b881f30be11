"""`bench.py soak`: flags in, run directory out."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

import click
import torch
from rich.console import Console

from cache.config import CacheConfig, PoolPages
from harness.cli.durations import text_of
from harness.cli.errors import UserError
from harness.cli.rehearsed import check, rehearsals
from harness.cli.serving import fit_model, launch_of, settings_of, typed
from harness.cli.traffic import announce
from harness.device.memory import shortage_told
from harness.model.plan import ModelPlan
from harness.ranks.leader import Leader, Voyage, leading
from harness.ranks.party import RankLost
from harness.record.directory import RunDirectory
from harness.record.machine import command_line
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.record.timeseries import VIRTUAL_EPOCH
from harness.report.page import build_report
from harness.serve.wall_clock import WallClock
from harness.sglang_flags import Launch
from harness.soak.blocks import count_blocks
from harness.soak.live import LineScreen, PanelScreen, Screen, SilentScreen
from harness.soak.plan import (
    ServerPlan,
    TrafficPlan,
    overlap_of,
    plan_server,
    plan_traffic,
    read_trace,
    time_scale_of,
)
from harness.soak.pools import pools_of
from harness.soak.run import Soak, Soaked
from harness.soak.settings import Serving, Traffic, Watching
from harness.soak.storage import StoragePlan
from harness.soak.traces import caveat
from harness.soak.wall import recorded_clock
from harness.verdict import EXIT_OF, Exit

NO_STORAGE = "none"
REPORTED_STORAGE = "memory"  # repeats exactly
MODEL_SHRINK = 16  # of the bundled trace, where a model is computed
REPORTED_POLICY = "wait_complete"


def run(context: click.Context, flags: dict[str, Any]) -> int:
    """Plan, run, tell. Returns the exit code."""
    launch = launch_of(context, flags)
    if flags["compute"] == "model":
        fit_model(context, flags)
        if not (flags["workload"] or typed(context, "trace") or typed(context, "shrink")):
            flags["shrink"] = MODEL_SHRINK
    flags = _with_reported_storage(context, flags)
    serving = settings_of(Serving, flags)
    traffic = settings_of(Traffic, flags)
    watching = settings_of(Watching, flags)
    if traffic.workload and typed(context, "trace"):
        raise UserError("--trace and --workload exclude each other: drop one of them")
    if traffic.set and not traffic.workload:
        raise UserError("--set belongs to a synthetic workload: add --workload chat")
    if flags["ids_as_pages"]:
        return _ids_as_pages(serving, traffic, flags)
    overlap = overlap_of(serving, watching.clock)
    serving = replace(serving, load_back_overlap=overlap.value)
    server = plan_server(serving, clock=watching.clock, seed=traffic.seed)
    plan = plan_traffic(traffic)
    check(flags["calibrate"], server, watching)
    directory = RunDirectory.create(Path(watching.output_dir), watching.tag)
    announce(plan.workload.source)
    manifest = manifest_of(serving, traffic, watching, server, plan, launch)
    if server.model is not None and server.model.device == "cpu":
        torch.set_num_threads(1)  # its matrices are small: threads that wait cost more than they do
    on_wall = watching.clock == "wall"
    epoch = datetime.now(UTC) if on_wall else VIRTUAL_EPOCH
    voyage = Voyage(serving=serving, traffic=traffic, watching=watching)
    with (
        shortage_told(),
        _loss_told(),
        rehearsals(flags["calibrate"], server, serving, traffic, watching, directory.path),
        Recorder(directory, manifest, epoch=epoch) as recorder,
        _clock(watching, server, voyage, recorder) as (clock, party),
    ):
        soak = Soak(
            server,
            plan,
            watching,
            radix_cache=serving.radix_cache,
            warmup_requests=traffic.warmup_requests,
            recorder=recorder,
            screen=screen_of(flags["json"], watching.clock),
            clock=clock,
            party=party,
        )
        soaked = soak.run()
        del soak
    tell(soaked, manifest, flags["json"])
    return Exit.INTERRUPTED if soaked.interrupted else EXIT_OF[soaked.verdict]


@contextmanager
def _loss_told() -> Iterator[None]:
    """Ranks that never came together are no run. One that is lost later is in its verdict."""
    try:
        yield
    except RankLost as error:
        click.echo(f"FAILED: {error}", err=True)
        raise SystemExit(Exit.RUN_FAILED) from None


@contextmanager
def _clock(
    watching: Watching, server: ServerPlan, voyage: Voyage, recorder: Recorder
) -> Iterator[tuple[WallClock | None, Leader | None]]:
    """The clock, and the other ranks where they are processes. None: the virtual one."""
    if watching.clock != "wall":
        yield None, None
    elif server.model is None or server.ranks == 1:
        with recorded_clock(recorder.folder) as clock:
            yield clock, None
    else:
        device = server.model.device
        with leading(voyage, recorder.folder, device, recorder.violation) as led:
            yield led


def _with_reported_storage(context: click.Context, flags: dict[str, Any]) -> dict[str, Any]:
    """The seed report's server had storage, and its requests waited for it: so do a soak's, unless
    a launch was pasted, something else is asked for, or there is nothing for storage to be below.
    """
    whole = flags["hierarchical"] and flags["radix_cache"] and not flags["from_sglang"]
    whole = whole and flags["compute"] != "model"  # of which all bytes would be kept
    if flags["hicache_storage_backend"] == NO_STORAGE:
        return {**flags, "hicache_storage_backend": ""}
    if typed(context, "hicache_storage_backend") or not whole:
        return flags
    flags = {**flags, "hicache_storage_backend": REPORTED_STORAGE}
    if typed(context, "hicache_storage_prefetch_policy"):
        return flags
    return {**flags, "hicache_storage_prefetch_policy": REPORTED_POLICY}


def rebuild(directory: str) -> str:
    """The path of the report that was built anew."""
    try:
        return str(build_report(Path(directory)))
    except (OSError, ValueError) as error:
        raise UserError(f"{directory} holds no run that can be read: {error}") from None


def screen_of(as_json: bool, clock: str) -> Screen:
    """What a person sees meanwhile."""
    if as_json:
        return SilentScreen()
    console = Console(stderr=True)
    if console.is_terminal:
        return PanelScreen(console, f"soak, {clock} clock")
    return LineScreen(lambda line: click.echo(line, err=True))


def manifest_of(
    serving: Serving,
    traffic: Traffic,
    watching: Watching,
    server: ServerPlan,
    plan: TrafficPlan,
    launch: Launch,
) -> Manifest:
    """What `run.json` says from the start."""
    config = server.config
    pools = pools_of(config)
    settings = {**asdict(serving), **asdict(traffic), **asdict(watching)}
    settings |= {"components": [c.name.lower() for c in config.components]}
    settings["time_scale"] = time_scale_of(traffic)
    settings |= {"window": config.window, "match_s": server.limits.match_s}
    if traffic.request_rate == inf:
        settings["request_rate"] = "inf"
    if traffic.duration_s == inf:
        settings["duration_s"] = text_of(inf)
    return Manifest(
        command=command_line(sys.argv),
        clock="wall" if watching.clock == "wall" else "virtual",
        seed=traffic.seed,
        settings=settings,
        workload={
            **plan.workload.source,
            "name": plan.workload.name,
            "digest": plan.workload.digest(),
            "arrivals": plan.arrivals,
        },
        pools=pools,
        notes=tuple(_notes(serving, server, plan, watching.clock)),
        ignored_flags=launch.ignored,
    )


def _notes(serving: Serving, server: ServerPlan, plan: TrafficPlan, clock: str) -> list[str]:
    notes = [f"Model shape: {server.shape.source}."]
    if server.model is not None:
        notes += _model_notes(server.model, clock)
    elif clock == "wall":
        notes.append("Forwards and copies take modelled times, which are really waited for.")
    elif serving.compute == "roofline":
        notes.append(
            "Times are simulated: a roofline over hardware presets whose efficiencies are"
            " assumptions, not measurements."
        )
    else:
        notes.append("Times are simulated: compute and copies cost next to nothing (null).")
    if serving.tp > 1:
        links = _RANKS if server.model is None else _PROCESSES
        latent = server.shape.full.latent is not None
        divided = "weights" if latent else "KV heads, weights and pools"
        whole = " Every rank keeps a token's latent row whole." if latent else ""
        notes.append(f"TP {serving.tp}: {divided} are divided by {serving.tp}.{whole}" + links)
    if server.model is None and serving.kv_cache_dtype.startswith("fp8"):
        notes.append("Slots hold fingerprints; the dtype sets sizes and times, no byte is moved.")
    if server.storage is not None:
        notes.append(_storage_note(server.storage, real=server.model is not None, clock=clock))
    if not serving.radix_cache:
        notes.append("The radix cache is off: the null cache is the baseline.")
    if note := caveat(plan.workload.source):
        notes.append(note)
    return notes


def _storage_note(storage: StoragePlan, *, real: bool, clock: str) -> str:
    if real and clock == "wall" and storage.troubles is None:
        return f"Storage ({storage.backend}) keeps the pages' bytes; what it takes is measured."
    return (
        f"Storage ({storage.backend}): its times are modelled by bandwidth and latency, which are"
        " assumptions."
    )


def _model_notes(model: ModelPlan, clock: str) -> list[str]:
    notes = [
        f"A model with random weights is computed on {model.device}: its KV is in the pools, in"
        f" {model.dtype}, and what is copied are its bytes.",
        f"N1 recomputes the logits of {model.check_logits:.0%} of all requests from scratch.",
    ]
    if clock == "wall":
        notes.append("Times are measured.")
    else:
        notes.append("Times are simulated: a roofline over the hardware preset.")
    return notes


_RANKS = (
    " Every rank has a cache of its own and its part of storage; what is under way ends when it"
    " does. Links that differ by up to a tenth and the time of an agreement are assumptions. Hits,"
    " bytes and memory are those of one rank."
)


_PROCESSES = (
    " Every rank is a process with a cache, copies and oracles of its own; sums and agreements go"
    " over torch.distributed. Hits, bytes and memory are those of the first, but where they are"
    " said to be of all; ranks.csv has each."
)


def tell(soaked: Soaked, manifest: Manifest, as_json: bool) -> None:
    """Say what the run came to, in a few lines or as one of JSON."""
    if as_json:
        click.echo(json.dumps({**soaked.summary, "run": soaked.recorded.directory.path.name}))
        return
    summary: dict[str, Any] = dict(soaked.summary)
    click.echo(f"{soaked.verdict.value.upper()}: {soaked.reason}")
    click.echo(
        f"  requests {summary['completed']:,} completed, {summary['rejected']:,} rejected,"
        f" {summary['aborted']:,} aborted in {summary['duration_s']:,.1f} s of"
        f" {'wall' if manifest.clock == 'wall' else 'model'} time"
    )
    click.echo(
        "  TTFT ({how}) p50 {median_ttft_ms:,.0f} ms, p99 {p99_ttft_ms:,.0f} ms; output"
        " {output_throughput:,.0f} tok/s".format(how=_how(manifest), **summary)
    )
    click.echo(
        "  prefix_token_hit_rate {prefix_token_hit_rate:.4f} of at most"
        " {ideal_token_hit_rate:.4f}; device {tier_hit_share_device:.0%}, host"
        " {tier_hit_share_host:.0%} of it".format(**summary)
    )
    if "logits_checked_requests" in summary:
        click.echo(
            "  N1 recomputed {logits_checked_requests:,} requests,"
            " {logits_checked_positions:,} logits".format(**summary)
        )
    if "storage_hit_tokens" in summary:
        click.echo(
            "  storage {tier_hit_share_storage:.0%} of it; {storage_pages:,} pages in it,"
            " {persisted_pages:,} persisted, {prefetches:,} prefetches brought"
            " {prefetched_pages:,}".format(**summary)
        )
    if summary["ranks"] > 1:
        click.echo("  {ranks} ranks came to {agreements:,} agreements".format(**summary))
    click.echo(f"  digest {summary['digest']}")
    for note in manifest.ignored_flags:
        click.echo(f"  ignored: {note}")
    for loss in soaked.recorded.lost:
        click.echo(f"  lost: {loss.sentence()}", err=True)
    click.echo(f"  {soaked.report or soaked.recorded.directory.path}")


def _how(manifest: Manifest) -> str:
    return "measured" if manifest.clock == "wall" else "simulated"


def _ids_as_pages(serving: Serving, traffic: Traffic, flags: Mapping[str, Any]) -> int:
    """Golden numbers: the cache alone over a trace's block ids."""
    if serving.hierarchical:
        raise UserError("--ids-as-pages counts one tier: add --disable-hierarchical-cache")
    if serving.components not in ((), ("full",)):
        raise UserError("--ids-as-pages counts FULL pages: use --components full")
    if serving.compute != "null":
        raise UserError("--ids-as-pages computes nothing: add --compute null")
    if serving.device_pages is None or serving.device_pages < 1:
        raise UserError("--ids-as-pages needs a capacity: add --device-pages N")
    if traffic.workload:
        raise UserError("--ids-as-pages reads a trace with block ids: use --trace FILE")
    config = CacheConfig(
        page_size=serving.page_size, full=PoolPages(device=serving.device_pages, host=0)
    )
    counted: dict[str, Any] = count_blocks(config, read_trace(traffic), limit=traffic.num_requests)
    if flags["json"]:
        click.echo(json.dumps(counted))
    else:
        click.echo(
            "prefix_block_hit_rate {prefix_block_hit_rate:.4f}, {evicted_pages:,} pages evicted,"
            " {prompt_pages:,} pages in {requests:,} prompts".format(**counted)
        )
    return Exit.PASS if not counted["violations"] else Exit.VIOLATION
