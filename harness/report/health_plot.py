"""How the server and its client fared: what was in flight, how requests ended, findings."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from harness.report import canvas
from harness.report.canvas import BLUE, GREEN, GREY, INK, ORANGE, VERMILION
from harness.report.quantities import plural

BINS = 80
MARKED = 6  # findings that get a line of their own
ENDS = (("completed", BLUE), ("failed", VERMILION), ("rejected", ORANGE), ("aborted", GREY))
LINES = (("in_flight_requests", "in flight, at the client", INK),
         ("running_requests", "running, at the server", BLUE),
         ("queue_requests", "waiting, at the server", VERMILION))  # fmt: skip


def health(
    everything: pd.DataFrame,
    series: pd.DataFrame,
    found: Sequence[Mapping[str, Any]],
    *,
    span_s: float,
) -> Figure:
    """Requests in flight, ends of requests, and whether the server answered; findings are marked
    in all panels."""
    scale, unit = canvas.time_scale(span_s)
    up = series["server_up"].dropna()
    silent = int((up == 0).sum())
    made, axes = canvas.figure(
        _title(silent, len(up), found),
        "Red lines are findings" if found else f"Looked at {plural(len(up), 'time')}",
        panels=(1.7, 1.3, 0.28),
    )
    for name, label, colour in LINES:
        if name in series:
            known = series[name].dropna()
            axes[0].plot(known.index / scale, known, color=colour, linewidth=1.5, label=label)
    canvas.legend(axes[0], heading="Requests")
    _endings(axes[1], everything, np.linspace(0, span_s or 1, BINS + 1), scale)
    canvas.legend(axes[1], heading="Ended")
    _strip(axes[2], up, span_s, scale)
    for panel in axes[:2]:
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    for panel in axes:
        canvas.time_axis(panel, clock="wall", unit=unit, last=span_s / scale)
    _mark(axes, found, scale)
    canvas.share_x_labels(axes)
    return made


def _title(silent: int, looks: int, found: Sequence[Mapping[str, Any]]) -> str:
    answered = (
        f"The server gave no answer to {silent:,} of {plural(looks, 'look')}"
        if silent
        else "The server answered every look"
    )
    if not found:
        return f"{answered}; nothing was found"
    first = found[0]
    return f"{answered}; first finding: {first['signature']} at {first['elapsed_s']:.1f} s"


def _endings(axes: Axes, everything: pd.DataFrame, edges: np.ndarray, scale: float) -> None:
    base = np.zeros(len(edges) - 1)
    for status, colour in ENDS:
        ended = everything.loc[everything["status"] == status, "end_ns"].to_numpy() / 1e9
        if not len(ended):
            continue
        counts, _ = np.histogram(ended, edges)
        axes.stairs(base + counts, edges / scale, baseline=base, fill=True, color=colour,
                    alpha=0.85, linewidth=0, label=f"{status} {len(ended):,}")  # fmt: skip
        base = base + counts
    axes.set_ylabel(f"in {edges[1] - edges[0]:.2g} s", size=9.5)


def _strip(axes: Axes, up: pd.Series, span_s: float, scale: float) -> None:
    """Green from a look that was answered to the next, red from one that was not."""
    at = [*(up.index.to_numpy(dtype=float) / scale), span_s / scale]
    for answered, colour, label in ((1, GREEN, "answered"), (0, VERMILION, "no answer")):
        spans = [(a, b - a) for a, b, here in zip(at, at[1:], up, strict=False) if here == answered]
        if spans:
            axes.broken_barh(spans, (0, 1), color=colour, alpha=0.85, linewidth=0, label=label)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.grid(visible=False)
    canvas.legend(axes, heading="Looks at the server")


def _mark(axes: Sequence[Axes], found: Sequence[Mapping[str, Any]], scale: float) -> None:
    for finding in found[:MARKED]:
        for panel in axes:
            panel.axvline(finding["elapsed_s"] / scale, color=VERMILION, linewidth=1.2,
                          linestyle=(0, (2, 2)))  # fmt: skip
