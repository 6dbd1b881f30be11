"""Where the time to the first token went.

The bar of a percentile is the mean of the requests around it, so its parts add up to what such a
request really took.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from harness.report import canvas
from harness.report.canvas import BLUE, GREEN, INK, ORANGE, PALE, PURPLE, VERMILION
from harness.report.quantities import duration, percent

PARTS = (
    ("before_ms", "before the send", PURPLE),
    ("queue_ms", "queue", VERMILION),
    ("match_ms", "match", GREEN),
    ("load_ms", "load", ORANGE),
    ("prefill_ms", "prefill", BLUE),
    ("other_ms", "other", PALE),
)
LEVELS = (50, 90, 99)


def ttft_parts(requests: pd.DataFrame) -> Figure:
    """Draw the parts of TTFT at its p50, p90 and p99 as stacked bars."""
    table = parts_of(requests)
    longest_ms = table.sum(axis=1).max()
    shown = [part for part in PARTS if table[part[0]].max() > 0.005 * longest_ms]
    slowest = table.loc[99].astype(float).to_dict()
    biggest = max(PARTS, key=lambda part: slowest[part[0]])
    share = slowest[biggest[0]] / (sum(slowest.values()) or 1.0)
    made, (axes,) = canvas.figure(
        f"At p99, {percent(share)} of TTFT was {_named(biggest[1])}",
        "Mean parts of the requests next to each percentile of TTFT (from the scheduled arrival)",
        panels=(1.9,),
    )
    ends = np.zeros(len(LEVELS))
    rows = np.arange(len(LEVELS))[::-1]
    for name, label, colour in shown:
        widths = table[name].to_numpy()
        axes.barh(
            rows,
            widths,
            left=ends,
            height=0.58,
            color=colour,
            label=label,
            edgecolor="white",
            linewidth=0.8,
        )
        ends += widths
    longest = ends.max() or 1
    for row, end in zip(rows, ends, strict=True):
        axes.text(end + 0.008 * longest, row, duration(end), va="center", size=9.5, color=INK)
    axes.set_xlim(0, longest * 1.1)
    axes.set_yticks(rows, [f"p{level}" for level in LEVELS], size=10, color=INK)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=canvas.RULE, linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axes.set_xlabel("time since the scheduled arrival", size=9.5)
    canvas.legend(axes)
    return made


def parts_of(requests: pd.DataFrame) -> pd.DataFrame:
    """Return one row a percentile, one column a part, in ms."""
    known = requests[["queue_ms", "match_ms", "load_ms", "prefill_ms"]].fillna(0.0)
    before = (requests["ttft_scheduled_ms"] - requests["ttft_ms"]).fillna(0.0).clip(lower=0)
    other = (requests["ttft_scheduled_ms"] - before - known.sum(axis=1)).clip(lower=0)
    table = known.assign(before_ms=before, other_ms=other)
    order = np.argsort(requests["ttft_scheduled_ms"].to_numpy(), kind="stable")
    rows = {level: table.iloc[order[_around(level, len(order))]].mean() for level in LEVELS}
    return pd.DataFrame(rows).T


def _around(level: int, number: int) -> slice:
    middle = round((number - 1) * level / 100)
    reach = max(number // 200, 1)
    return slice(max(middle - reach, 0), min(middle + reach, number - 1) + 1)


def _named(part: str) -> str:
    return {"queue": "queueing", "load": "load-back", "before the send": "waiting to be sent"}.get(
        part, part
    )
