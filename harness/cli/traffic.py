"""The flags of traffic, for every command that sends some."""

from collections.abc import Mapping
from math import inf
from typing import Any

import click

from harness.cli.durations import Duration, Rate
from harness.soak.settings import Traffic
from harness.soak.traces import how_read, is_trace

_TRAFFIC = Traffic()


def _pairs(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    pairs = []
    for text in value:
        name, equals, rest = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r}: use --set num_clients=64", context, parameter)
        pairs.append((name.replace("-", "_"), rest))
    return tuple(pairs)


def announce(source: Mapping[str, str | int | float]) -> None:
    """Say how a trace was read."""
    if is_trace(source):
        click.echo(how_read(source), err=True)


def _seconds_or_inf(context: click.Context, parameter: click.Parameter, value: Any) -> float:
    return inf if value is None else float(value)


_opt = click.option
#: How a trace file is read; `trace` has them too.
TRACE_OPTIONS = (
    _opt("--trace-format", default=_TRAFFIC.trace_format, show_default=True,
         help="Its format; auto tells it by the first rows."),
    _opt("--block-size", type=int,
         help="Tokens that one hash id of the trace stands for.  [default: as its format says]"),
    _opt("--lenient", is_flag=True, help="Mend what can be mended in a trace, and say so."),
)  # fmt: skip
TRAFFIC_OPTIONS = (
    _opt("--trace", default=_TRAFFIC.trace, show_default=True,
         help="Trace to replay, of any format in docs/traces.md."),
    *TRACE_OPTIONS,
    _opt("--shrink", default=_TRAFFIC.shrink, show_default=True,
         help="Prompts, answers and blocks of the trace are so many times shorter."),
    _opt("--workload", default="", help="Synthetic traffic instead: chat, shared_prefix, unique."),
    _opt("--set", multiple=True, callback=_pairs, metavar="NAME=VALUE",
         help="A parameter of the workload, such as num_clients=64."),
    _opt("--num-requests", type=int, help="Stop sending after this many."),
    _opt("--duration", "duration_s", type=Duration(), callback=_seconds_or_inf,
         help="Stop sending after this much time of the run's clock: 90s, 10m, 4h."),
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
)  # fmt: skip
