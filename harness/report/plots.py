"""The pictures of a run: which there are, in the order of the report.

Each is drawn by a function that takes only what it draws; its title is what it shows. One that
there is nothing to draw for is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from harness.report import canvas
from harness.report.files import RunFiles
from harness.report.health_plot import health
from harness.report.hits_plot import hit_rate_over_time
from harness.report.memory_plot import memory_over_time
from harness.report.parts_plot import ttft_parts
from harness.report.queue_plot import queue_over_time
from harness.report.server_plots import (
    MOVES,
    server_hits,
    server_moves,
    server_pools,
    ttft_both_sides,
)
from harness.report.ttft_plots import ttft_distribution, ttft_over_time

PARTS_KNOWN = ("queue_ms", "match_ms", "load_ms", "prefill_ms")


class Picture(NamedTuple):
    """A drawn plot: its file's stem, and what it shows in words."""

    name: str
    finding: str
    png: bytes


def pictures(run: RunFiles) -> list[Picture]:
    """Draw every plot the run has data for, in the order of the report."""
    clock, requests, series = str(run.run["clock"]), run.requests, run.series
    drawn: list[tuple[str, Figure]] = []
    timed = requests[requests["ttft_scheduled_ms"].notna()]
    if len(timed):
        drawn.append(("ttft_over_time", ttft_over_time(timed, clock=clock)))
        drawn.append(("ttft_distribution", ttft_distribution(timed)))
    if timed["ttft_scheduled_ms"].any() and timed[list(PARTS_KNOWN)].notna().any(axis=None):
        drawn.append(("ttft_parts", ttft_parts(timed)))
    if len(requests):
        drawn.append(("hit_rate_over_time", hit_rate_over_time(requests, clock=clock)))
    pools: Sequence[Mapping[str, Any]] = run.run["pools"]
    if series.columns.str.endswith("_used_pages").any():
        drawn.append(("memory_over_time", memory_over_time(series, pools, clock=clock)))
    if {"queue_requests", "running_requests"} <= set(series.columns) and not of_server(run):
        drawn.append(("queue_over_time", queue_over_time(series, clock=clock)))
    return [_picture(name, made) for name, made in drawn]


def of_server(run: RunFiles) -> bool:
    """Whether the run loaded a server, and looked at it."""
    return "server_up" in run.series


def server_pictures(run: RunFiles) -> list[Picture]:
    """Draw what the server said beside what its client saw."""
    if not of_server(run):
        return []
    series, ended = run.series, run.everything["end_ns"]
    span_s = max(float(series.index[-1]), float(ended.max()) / 1e9 if len(ended) else 0.0)
    drawn = [
        ("server_health", health(run.everything, series, run.violations, span_s=span_s)),
    ]
    if _grew(series, "server_ttft_requests"):
        drawn.append(
            ("server_ttft", ttft_both_sides(run.everything, series, span_s=span_s)),
        )
    if _grew(series, "server_prompt_tokens"):
        drawn.append(("server_hits", server_hits(series, span_s=span_s)))
    if {"server_device_used_tokens", "server_device_usage"} & set(series.columns):
        drawn.append(("server_pools", server_pools(series, span_s=span_s)))
    if any(_grew(series, name) for name, _, _ in MOVES):
        drawn.append(("server_moves", server_moves(series, span_s=span_s)))
    return [_picture(name, made) for name, made in drawn]


def _grew(series: pd.DataFrame, name: str) -> bool:
    return name in series and bool(series[name].max() > 0)


def _picture(name: str, made: Figure) -> Picture:
    return Picture(name, made.texts[0].get_text(), canvas.png(made))
