"""Time to the first token, over the run and as a distribution.

TTFT here is what a user feels, from the scheduled arrival; the send is a second line where it
differs.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from harness.report import canvas
from harness.report.canvas import BLUE, GREY, INK, ORANGE, VERMILION
from harness.report.quantities import count, duration, plural

POINTS_DRAWN = 20_000
LEVELS = ((50, BLUE), (90, ORANGE), (99, VERMILION))
LEAST_MS = 1e-3  # what a logarithmic axis shows for 0


def ttft_over_time(requests: pd.DataFrame, *, clock: str) -> Figure:
    """Every request's TTFT (from its scheduled arrival) and rolling p50, p90, p99."""
    ttft_ms = requests["ttft_scheduled_ms"].to_numpy()
    at_s = canvas.arrivals_s(requests)
    scale, unit = canvas.time_scale(at_s[-1])
    p50, p99 = np.percentile(ttft_ms, (50, 99))
    made, (axes,) = canvas.figure(
        f"TTFT p50 {duration(p50)}, p99 {duration(p99)}",
        f"Time to first token from the scheduled arrival, {plural(len(ttft_ms), 'request')};"
        " lines are percentiles of a moving window",
    )
    step = -(-len(ttft_ms) // POINTS_DRAWN)
    faint = float(np.clip(60 / np.sqrt(len(ttft_ms)), 0.18, 0.7))
    drawn_ms = np.maximum(ttft_ms, LEAST_MS)
    area = float(np.clip(4_000 / len(ttft_ms), 7, 24))
    axes.scatter(
        at_s[::step] / scale, drawn_ms[::step], s=area, color=GREY, alpha=faint, linewidths=0
    )
    middles, percentiles = moving_percentiles(at_s, ttft_ms)
    for (level, colour), values in zip(LEVELS, percentiles, strict=True):
        axes.plot(
            middles / scale,
            np.maximum(values, LEAST_MS),
            color=colour,
            linewidth=2,
            label=f"p{level}",
        )
    axes.scatter(
        [],
        [],
        s=14,
        color=GREY,
        linewidths=0,
        label="one request" if step == 1 else f"one request in {step}",
    )
    canvas.duration_axis(axes, "y", drawn_ms if ttft_ms.any() else ttft_ms)
    axes.set_ylabel("TTFT", size=9.5)
    canvas.time_axis(axes, clock=clock, unit=unit, last=at_s[-1] / scale)
    canvas.legend(axes)
    return made


def ttft_distribution(requests: pd.DataFrame) -> Figure:
    """The share of requests answered within a time, from the arrival and from the send."""
    felt_ms = np.sort(requests["ttft_scheduled_ms"].to_numpy())
    sent_ms = np.sort(requests["ttft_ms"].dropna().to_numpy())
    marks = np.percentile(felt_ms, [level for level, _ in LEVELS])
    spread = f", {count(marks[2] / marks[0])} times the median" if marks[0] > 0 else ""
    made, (axes,) = canvas.figure(
        f"99 % of requests had their first token within {duration(marks[2])}{spread}",
        f"Cumulative distribution of TTFT over {plural(len(felt_ms), 'request')}, logarithmic time",
    )
    if len(sent_ms) and not np.allclose(np.percentile(sent_ms, (50, 90, 99)), marks, rtol=0.01):
        axes.plot(
            *steps(sent_ms),
            color=GREY,
            linewidth=1.6,
            linestyle=(0, (4, 2)),
            label="from the send",
        )
    axes.plot(*steps(felt_ms), color=BLUE, linewidth=2.2, label="from the scheduled arrival")
    logarithmic = canvas.duration_axis(
        axes, "x", np.maximum(felt_ms, LEAST_MS) if felt_ms.any() else felt_ms
    )
    low, high = axes.get_xlim()
    for (level, colour), value in zip(
        LEVELS, np.maximum(marks, LEAST_MS if logarithmic else 0), strict=True
    ):
        axes.plot([value], [level / 100], "o", color=colour, markersize=7, zorder=5, clip_on=False)
        right = logarithmic and np.log(value / low) > 0.8 * np.log(high / low)
        axes.annotate(
            f"p{level}  {duration(value)}",
            (value, level / 100),
            xytext=(-10 if right else 10, 7 if right else -9),
            textcoords="offset points",
            ha="right" if right else "left",
            va="center",
            size=9.5,
            color=INK,
        )
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    axes.set_ylabel("requests answered", size=9.5)
    axes.set_xlabel("TTFT", size=9.5)
    canvas.legend(axes)
    return made


def steps(values_ms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at most 2,000 points of the cumulative distribution, both ends included."""
    chosen = np.unique(np.linspace(0, len(values_ms) - 1, min(len(values_ms), 2_000)).astype(int))
    return np.maximum(values_ms[chosen], LEAST_MS), (chosen + 1) / len(values_ms)


def moving_percentiles(at_s: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return window middles and a (3, windows) array of percentiles; windows overlap by half.

    A run too short for windows has one level for all of it.
    """
    levels = [level for level, _ in LEVELS]
    windows = min(len(values) // 25, 90)
    if windows < 3:
        whole = np.percentile(values, levels)
        return np.array([0.0, at_s[-1]]), np.column_stack((whole, whole))
    width = at_s[-1] / windows
    middles = (np.arange(windows) + 0.5) * width
    first = np.searchsorted(at_s, middles - width, side="left")
    last = np.searchsorted(at_s, middles + width, side="right")
    rows = [
        np.percentile(values[low:high], levels) if high - low >= 5 else [np.nan] * 3
        for low, high in zip(first, last, strict=True)
    ]
    return middles, np.array(rows).T
