"""The pictures of a run: which there are, in the order of the report.

Each is drawn by a function that takes only what it draws; its title is what it shows. One that
there is nothing to draw for is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from harness.report import canvas
from harness.report.files import RunFiles
from harness.report.hits_plot import hit_rate_over_time
from harness.report.memory_plot import memory_over_time
from harness.report.parts_plot import ttft_parts
from harness.report.queue_plot import queue_over_time
from harness.report.ttft_plots import ttft_distribution, ttft_over_time


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
    if timed["ttft_scheduled_ms"].any():
        drawn.append(("ttft_parts", ttft_parts(timed)))
    if len(requests):
        drawn.append(("hit_rate_over_time", hit_rate_over_time(requests, clock=clock)))
    pools: Sequence[Mapping[str, Any]] = run.run["pools"]
    if series.columns.str.endswith("_used_pages").any():
        drawn.append(("memory_over_time", memory_over_time(series, pools, clock=clock)))
    if {"queue_requests", "running_requests"} <= set(series.columns):
        drawn.append(("queue_over_time", queue_over_time(series, clock=clock)))
    return [Picture(name, made.texts[0].get_text(), canvas.png(made)) for name, made in drawn]
