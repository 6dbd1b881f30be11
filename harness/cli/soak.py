"""`bench.py soak`: flags in, run directory out."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from math import inf
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from cache.config import CacheConfig, PoolPages, Tier
from harness.cli.durations import Duration, Rate, text_of
from harness.cli.errors import UserError
from harness.record.directory import RunDirectory
from harness.record.machine import command_line
from harness.record.manifest import Manifest, Pool
from harness.record.run import Recorder
from harness.report.page import build_report
from harness.sglang_flags import Launch, parse_launch
from harness.soak.blocks import count_blocks
from harness.soak.live import LineScreen, PanelScreen, Screen, SilentScreen
from harness.soak.plan import (
    ServerPlan,
    TrafficPlan,
    plan_server,
    plan_traffic,
    read_trace,
    time_scale_of,
)
from harness.soak.run import Soak, Soaked
from harness.soak.settings import Serving, Traffic, Watching
from harness.verdict import EXIT_OF, Exit

_SERVING, _TRAFFIC, _WATCHING = Serving(), Traffic(), Watching()
Command = Callable[..., Any]


def options(command: Command) -> Command:
    """Every flag of `soak`, in the order in which help shows them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def run(context: click.Context, flags: dict[str, Any]) -> int:
    """Plan, run, tell. Returns the exit code."""
    launch = _launch(context, flags)
    serving = _settings(Serving, flags)
    traffic = _settings(Traffic, flags)
    watching = _settings(Watching, flags)
    if traffic.workload and _typed(context, "trace"):
        raise UserError("--trace and --workload exclude each other: drop one of them")
    if traffic.set and not traffic.workload:
        raise UserError("--set belongs to a synthetic workload: add --workload chat")
    if flags["ids_as_pages"]:
        return _ids_as_pages(serving, traffic, flags)
    server, plan = plan_server(serving), plan_traffic(traffic)
    directory = RunDirectory.create(Path(watching.output_dir), watching.tag)
    manifest = _manifest(serving, traffic, watching, server, plan, launch)
    with Recorder(directory, manifest) as recorder:
        soak = Soak(
            server,
            plan,
            watching,
            radix_cache=serving.radix_cache,
            warmup_requests=traffic.warmup_requests,
            recorder=recorder,
            screen=_screen(flags["json"]),
        )
        soaked = soak.run()
    _tell(soaked, manifest, flags["json"])
    return Exit.INTERRUPTED if soaked.interrupted else EXIT_OF[soaked.verdict]


def rebuild(directory: str) -> str:
    """The path of the report that was built anew."""
    try:
        return str(build_report(Path(directory)))
    except (OSError, ValueError) as error:
        raise UserError(f"{directory} holds no run that can be read: {error}") from None


def _settings(kind: type[Any], flags: Mapping[str, Any]) -> Any:
    return kind(**{f.name: flags[f.name] for f in fields(kind) if f.name in flags})


def _typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _launch(context: click.Context, flags: dict[str, Any]) -> Launch:
    """Use what a pasted launch command says, except where a flag was typed as well."""
    if not flags["from_sglang"]:
        return Launch({}, ())
    parameters = {
        option: parameter
        for parameter in context.command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    supported = [option for option in parameters if option not in _NOT_OF_A_LAUNCH]
    launch = parse_launch(flags["from_sglang"], supported=supported)
    flags["hierarchical"] = _pick(context, flags, "hierarchical", launch.hierarchical)
    for option, text in launch.known.items():
        parameter = parameters[option]
        name = parameter.name
        assert name is not None
        if option in ("--enable-hierarchical-cache", "--disable-radix-cache"):
            value: Any = option.startswith("--enable")
        else:
            value = parameter.type_cast_value(context, text)
            if parameter.callback is not None:
                value = parameter.callback(context, parameter, value)
        flags[name] = _pick(context, flags, name, value)
    return launch


def _pick(context: click.Context, flags: Mapping[str, Any], name: str, value: Any) -> Any:
    return flags[name] if _typed(context, name) else value


def _screen(as_json: bool) -> Screen:
    if as_json:
        return SilentScreen()
    console = Console(stderr=True)
    if console.is_terminal:
        return PanelScreen(console, "soak, virtual clock")
    return LineScreen(lambda line: click.echo(line, err=True))


def _manifest(
    serving: Serving,
    traffic: Traffic,
    watching: Watching,
    server: ServerPlan,
    plan: TrafficPlan,
    launch: Launch,
) -> Manifest:
    config = server.config
    pools = tuple(
        Pool(tier.name.lower(), c.name.lower(), config.pools(c)[tier], config.page_bytes[c])
        for tier in Tier
        for c in config.components
        if config.pools(c)[tier]
    )
    settings = {**asdict(serving), **asdict(traffic), **asdict(watching)}
    settings |= {"components": [c.name.lower() for c in config.components]}
    settings["time_scale"] = time_scale_of(traffic)
    settings |= {"window": config.window, "clock": "virtual", "match_s": server.limits.match_s}
    if traffic.duration_s == inf:
        settings["duration_s"] = text_of(inf)
    return Manifest(
        command=command_line(sys.argv),
        clock="virtual",
        seed=traffic.seed,
        settings=settings,
        workload={
            **plan.workload.source,
            "name": plan.workload.name,
            "digest": plan.workload.digest(),
            "arrivals": plan.arrivals,
        },
        pools=pools,
        notes=tuple(_notes(serving, server)),
        ignored_flags=launch.ignored,
    )


def _notes(serving: Serving, server: ServerPlan) -> list[str]:
    notes = [f"Model shape: {server.shape.source}."]
    if serving.compute == "roofline":
        notes.append(
            "Times are simulated: a roofline over hardware presets whose efficiencies are"
            " assumptions, not measurements."
        )
    else:
        notes.append("Times are simulated: compute and copies cost next to nothing (null).")
    if serving.tp > 1:
        notes.append(
            f"TP {serving.tp}: KV heads, weights and pools are divided by {serving.tp}, and one"
            " rank is simulated; ranks that disagree are not."
        )
    if serving.kv_cache_dtype.startswith("fp8"):
        notes.append("Slots hold fingerprints; the dtype sets sizes and times, no byte is moved.")
    if serving.hicache_storage_backend:
        notes.append(
            f"Storage ({serving.hicache_storage_backend}): its times are modelled by bandwidth and"
            " latency, which are assumptions."
        )
    if not serving.radix_cache:
        notes.append("The radix cache is off: the null cache is the baseline.")
    return notes


def _tell(soaked: Soaked, manifest: Manifest, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**soaked.summary, "run": soaked.recorded.directory.path.name}))
        return
    summary: dict[str, Any] = dict(soaked.summary)
    click.echo(f"{soaked.verdict.value.upper()}: {soaked.reason}")
    click.echo(
        f"  requests {summary['completed']:,} completed, {summary['rejected']:,} rejected,"
        f" {summary['aborted']:,} aborted in {summary['duration_s']:,.1f} s of model time"
    )
    click.echo(
        "  TTFT (simulated) p50 {median_ttft_ms:,.0f} ms, p99 {p99_ttft_ms:,.0f} ms; output"
        " {output_throughput:,.0f} tok/s".format(**summary)
    )
    click.echo(
        "  prefix_token_hit_rate {prefix_token_hit_rate:.4f} of at most"
        " {ideal_token_hit_rate:.4f}; device {tier_hit_share_device:.0%}, host"
        " {tier_hit_share_host:.0%} of it".format(**summary)
    )
    if "storage_hit_tokens" in summary:
        click.echo(
            "  storage {tier_hit_share_storage:.0%} of it; {storage_pages:,} pages in it,"
            " {storage_written_bytes:,} bytes sent, {storage_read_bytes:,} fetched".format(
                **summary
            )
        )
    click.echo(f"  digest {summary['digest']}")
    for note in manifest.ignored_flags:
        click.echo(f"  ignored: {note}")
    for loss in soaked.recorded.lost:
        click.echo(f"  lost: {loss.sentence()}", err=True)
    click.echo(f"  {soaked.report or soaked.recorded.directory.path}")


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


def _names(context: click.Context, parameter: click.Parameter, value: Any) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    return tuple(part.strip() for part in str(value or "").split(",") if part.strip())


def _pairs(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    pairs = []
    for text in value:
        name, equals, rest = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r}: use --set num_clients=64", context, parameter)
        pairs.append((name.replace("-", "_"), rest))
    return tuple(pairs)


def _seconds_or_inf(context: click.Context, parameter: click.Parameter, value: Any) -> float:
    return inf if value is None else float(value)


_opt = click.option
_OPTIONS = (
    _opt("--trace", default=_TRAFFIC.trace, show_default=True, help="Trace file to replay."),
    _opt("--trace-format", default=_TRAFFIC.trace_format, show_default=True, help="Its format."),
    _opt("--block-size", default=_TRAFFIC.block_size, show_default=True,
         help="Tokens that one hash id of the trace stands for."),
    _opt("--lenient", is_flag=True, help="Mend what can be mended in a trace, and say so."),
    _opt("--workload", default="", help="Synthetic traffic instead: chat, shared_prefix, unique."),
    _opt("--set", multiple=True, callback=_pairs, metavar="NAME=VALUE",
         help="A parameter of the workload, such as num_clients=64."),
    _opt("--num-requests", type=int, help="Stop sending after this many."),
    _opt("--duration", "duration_s", type=Duration(), callback=_seconds_or_inf,
         help="Stop sending after this much time of the run's clock: 90s, 10m, 4h."),
    _opt("--clock", type=click.Choice(["virtual"]), default="virtual", show_default=True,
         help="Which clock picks the next event."),
    _opt("--seed", default=_TRAFFIC.seed, show_default=True, help="Seed of everything drawn."),
    _opt("--arrival", default="", help="trace, poisson, constant, gamma or burst  [default: trace,"
         " or poisson with --request-rate]"),
    _opt("--request-rate", type=Rate(), help="Sessions per second; inf sends all at once."),
    _opt("--burstiness", default=_TRAFFIC.burstiness, show_default=True,
         help="Shape of --arrival gamma: 1 is Poisson, less is burstier."),
    _opt("--burst-size", default=_TRAFFIC.burst_size, show_default=True,
         help="Sessions at one instant, for --arrival burst."),
    _opt("--time-scale", type=float, help="Multiplies the trace's times: 2 is twice as slow."
         "  [default: 1; 2 for the bundled trace]"),
    _opt("--spread-bucket", is_flag=True,
         help="Spread requests of one instant over the gap to the next (seeded)."),
    _opt("--max-concurrency", type=int, help="Most requests open at once, as a client's limit."),
    _opt("--warmup-requests", default=0, show_default=True,
         help="The first requests, counted apart."),
    _opt("--model", default=_SERVING.model, show_default=True,
         help="A preset, or the path of a Hugging Face config.json."),
    _opt("--hardware", default=_SERVING.hardware, show_default=True,
         help="H200, B200, H100, A100 or cpu."),
    _opt("--tp", "--tp-size", default=_SERVING.tp, show_default=True, help="Tensor parallelism."),
    _opt("--compute", default=_SERVING.compute, show_default=True,
         help="roofline, or null: the cache's own cost only."),
    _opt("--context-length", default=_SERVING.context_length, show_default=True,
         help="Longer prompts are rejected, as a server would."),
    _opt("--kv-cache-dtype", default=_SERVING.kv_cache_dtype, show_default=True,
         help="fp8_e4m3, fp8_e5m2, bf16 or auto."),
    _opt("--mem-fraction-static", default=_SERVING.mem_fraction_static, show_default=True,
         help="Share of device memory for weights and KV."),
    _opt("--page-size", default=_SERVING.page_size, show_default=True, help="Tokens of a page."),
    _opt("--device-pages", type=int, help="FULL slots on the device, whatever its memory."),
    _opt("--components", default="", callback=_names,
         help="full or full,swa  [default: those of the model]"),
    _opt("--swa-full-tokens-ratio", default=_SERVING.swa_full_tokens_ratio, show_default=True,
         help="SWA slots for each FULL slot."),
    _opt("--enable-hierarchical-cache/--disable-hierarchical-cache", "hierarchical", default=True,
         show_default=True, help="The host tier."),
    _opt("--enable-radix-cache/--disable-radix-cache", "radix_cache", default=True,
         help="Prefix caching itself; off is the baseline."),
    _opt("--hicache-ratio", default=_SERVING.hicache_ratio, show_default=True,
         help="Host slots for each device slot, 0.25 to 8."),
    _opt("--hicache-size", default=_SERVING.hicache_size, show_default=True,
         help="Host memory in GB per rank; overrides the ratio."),
    _opt("--hicache-write-policy", default=_SERVING.hicache_write_policy, show_default=True,
         help="write_through, write_through_selective or write_back."),
    _opt("--hicache-io-backend", default=_SERVING.hicache_io_backend, show_default=True,
         help="kernel or direct (sets the modelled copy time)."),
    _opt("--hicache-mem-layout", default=_SERVING.hicache_mem_layout, show_default=True,
         help="layer_first, page_first or page_first_direct (same)."),
    _opt("--hicache-storage-backend", default=_SERVING.hicache_storage_backend,
         help="Storage below the host: file, redis or memory  [default: none]"),
    _opt("--hicache-storage-prefetch-policy",
         default=_SERVING.hicache_storage_prefetch_policy, show_default=True,
         help="best_effort, wait_complete or timeout."),
    _opt("--prefetch-threshold", default=_SERVING.prefetch_threshold, show_default=True,
         help="Fewer tokens are not fetched from storage."),
    _opt("--prefetch-batch-pages", default=_SERVING.prefetch_batch_pages, show_default=True,
         help="Pages that one question to storage asks for."),
    _opt("--prefetch-timeout-base", default=_SERVING.prefetch_timeout_base, show_default=True,
         help="Seconds that the policy timeout waits in any case."),
    _opt("--prefetch-timeout-per-ki-token", default=_SERVING.prefetch_timeout_per_ki_token,
         show_default=True, help="And for each 1,024 tokens that could come."),
    _opt("--storage-path", default=_SERVING.storage_path,
         help="Folder of file, URL of redis  [default: a folder of the run]"),
    _opt("--storage-size", default=_SERVING.storage_size, show_default=True,
         help="GB of KV per rank that storage holds."),
    _opt("--storage-read-bandwidth", default=_SERVING.storage_read_bandwidth, show_default=True,
         help="GB/s, modelled."),
    _opt("--storage-write-bandwidth", default=_SERVING.storage_write_bandwidth, show_default=True,
         help="GB/s, modelled."),
    _opt("--storage-latency", default=_SERVING.storage_latency, show_default=True,
         help="Microseconds of one question, modelled."),
    _opt("--storage-troubles", default=_SERVING.storage_troubles, show_default=True,
         help="Seed of a plan that makes storage slow, full, failing, torn or lying; 0 is none."),
    _opt("--radix-eviction-policy", default=_SERVING.radix_eviction_policy, show_default=True,
         help="lru, lfu or priority, on the device."),
    _opt("--host-eviction-policy", default=_SERVING.host_eviction_policy, show_default=True,
         help="The same on the host."),
    _opt("--load-back-threshold", default=_SERVING.load_back_threshold, show_default=True,
         help="Shorter gains (tokens) are not loaded back."),
    _opt("--chunked-prefill-size", default=_SERVING.chunked_prefill_size, show_default=True,
         help="Prefill tokens of one forward."),
    _opt("--max-running-requests", default=_SERVING.max_running_requests, show_default=True,
         help="Most requests admitted at once."),
    _opt("--schedule-conservativeness", default=_SERVING.schedule_conservativeness,
         show_default=True, help="Share of promised answers that admission keeps room for."),
    _opt("--from-sglang", default="", metavar="COMMAND",
         help='A pasted "sglang serve ..." command; what it knows is used, the rest listed.'),
    _opt("--ids-as-pages", is_flag=True,
         help="Count block hits: every id one whole page, prompts only, one at a time."),
    _opt("--oracles", type=click.Choice(["every", "sampled", "off"]), default=_WATCHING.oracles,
         show_default=True, help="every: full audit after every event; sampled: now and then."),
    _opt("--output-dir", default=_WATCHING.output_dir, show_default=True, help="Where runs land."),
    _opt("--tag", default=_WATCHING.tag, show_default=True, help="Name of the run's directory."),
    _opt("--json", is_flag=True, help="The summary as one JSON line on standard output."),
)  # fmt: skip
_NOT_OF_A_LAUNCH = ("--trace", "--set", "--json", "--tag", "--from-sglang", "--seed")
