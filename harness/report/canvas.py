"""How every plot looks: one palette, one type scale, the finding as its title.

Colours are Okabe and Ito's, told apart with every common colour vision; a figure is 9 inches wide,
so that its text is as large as the page's when it is shown at 900 pixels.
"""

from collections.abc import Sequence
from io import BytesIO

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from harness.report.quantities import duration, size

BLUE, SKY, ORANGE, GREEN = "#0072B2", "#56B4E9", "#E69F00", "#009E73"
VERMILION, PURPLE, GREY, PALE = "#D55E00", "#CC79A7", "#7A7F87", "#D5D9DE"
INK, QUIET, RULE = "#1B1F24", "#5B626B", "#E4E7EB"
WIDTH_IN = 9.0
DOTS_PER_INCH = 180
_TOP_IN, _BOTTOM_IN, _LEFT_IN, _RIGHT_IN, _GAP_IN = 1.06, 0.56, 0.88, 0.22, 0.42


def figure(
    title: str, subtitle: str, *, panels: Sequence[float] = (3.2,)
) -> tuple[Figure, list[Axes]]:
    """Return a figure with one axes per panel height (inches), sharing the same left and right
    edges.
    """
    height_in = _TOP_IN + sum(panels) + _GAP_IN * (len(panels) - 1) + _BOTTOM_IN
    made = Figure(figsize=(WIDTH_IN, height_in), dpi=DOTS_PER_INCH, facecolor="white")
    left, wide = _LEFT_IN / WIDTH_IN, (WIDTH_IN - _LEFT_IN - _RIGHT_IN) / WIDTH_IN
    made.text(0.014, 1 - 0.3 / height_in, title, size=13, weight="bold", color=INK, va="center")
    made.text(0.014, 1 - 0.56 / height_in, subtitle, size=9.5, color=QUIET, va="center")
    top_in, axes = _TOP_IN, []
    for panel_in in panels:
        bottom = 1 - (top_in + panel_in) / height_in
        axes.append(_quiet(made.add_axes((left, bottom, wide, panel_in / height_in))))
        top_in += panel_in + _GAP_IN
    return made, axes


def legend(axes: Axes, *, heading: str = "") -> None:
    """Put the legend in one row above the data, with an optional heading at its left."""
    if heading:
        axes.set_title(heading, loc="left", size=9.5, color=INK, weight="bold", pad=7)
    if not axes.get_legend_handles_labels()[0]:
        return
    axes.legend(
        loc="lower right" if heading else "lower left",
        bbox_to_anchor=(1.005, 0.985) if heading else (-0.012, 0.985),
        ncols=8,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        handlelength=1.3,
        handletextpad=0.5,
        columnspacing=1.4,
        borderpad=0.2,
    )


def time_scale(span_s: float) -> tuple[float, str]:
    """Return what to divide seconds by, and the unit's name, for an axis of this span."""
    if span_s > 3 * 3600:
        return 3600.0, "h"
    return (60.0, "min") if span_s > 300 else (1.0, "s")


def time_axis(axes: Axes, *, clock: str, unit: str, last: float) -> None:
    """Label the x axis as a run's time from 0 to `last` units."""
    axes.set_xlabel(f"{'model' if clock == 'virtual' else 'elapsed'} time ({unit})", size=9.5)
    axes.set_xlim(0, last or 1)


def duration_axis(axes: Axes, which: str, values_ms: np.ndarray) -> bool:
    """Scale one axis ("x" or "y") for durations in ms: log with readable ticks, linear if all are
    0.
    """
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    positive = values_ms[values_ms > 0]
    if not positive.size:
        return False
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    low, high = float(positive.min()), float(positive.max())
    wide = high / low > 300
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=12))
    axis.set_minor_locator(NullLocator() if not wide else LogLocator(subs="auto", numticks=100))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    bounds = (low / 1.25, high * 1.25)
    (axes.set_xlim if which == "x" else axes.set_ylim)(bounds)
    return True


def size_axis(axes: Axes, top_bytes: float) -> None:
    """Scale the y axis from 0 to `top_bytes`, with ticks at round binary sizes."""
    unit = 1024 ** max(int(np.log2(max(top_bytes, 1))) // 10, 0)
    ticks = MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]).tick_values(0, top_bytes / unit) * unit
    axes.set_yticks(ticks[ticks <= top_bytes])
    axes.set_ylim(0, top_bytes * 1.06 or 1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: size(value)))


def share_x_labels(panels: Sequence[Axes]) -> None:
    """Keep the labels of the time axis on the lowest panel only."""
    for panel in panels[:-1]:
        panel.set_xlabel("")
        panel.tick_params(axis="x", labelbottom=False)


def arrivals_s(requests: pd.DataFrame) -> np.ndarray:
    """Return the scheduled arrivals in seconds since the first one; rows are in that order."""
    at_ns = requests["scheduled_ns"].to_numpy()
    return np.asarray((at_ns - at_ns[0]) / 1e9)


def png(made: Figure) -> bytes:
    """Return the figure as a PNG; the same figure gives the same bytes."""
    out = BytesIO()
    made.savefig(out, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return out.getvalue()


def _quiet(axes: Axes) -> Axes:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#B9BFC7")
    axes.tick_params(colors=QUIET, labelsize=9, width=0.8, which="both")
    axes.xaxis.label.set_color(QUIET)
    axes.yaxis.label.set_color(QUIET)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    return axes
