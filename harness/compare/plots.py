"""The pictures of a comparison. Where lines are runs, A is blue and B is orange."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from harness.compare.comparison import Comparison, Row, Word
from harness.compare.sides import Side
from harness.compare.words import change, headline
from harness.report import canvas
from harness.report.canvas import BLUE, GREEN, GREY, INK, ORANGE, VERMILION
from harness.report.hits_plot import TIERS
from harness.report.parts_plot import LEVELS, PARTS, parts_of
from harness.report.plots import PARTS_KNOWN, Picture
from harness.report.quantities import duration, percent, plural
from harness.report.ttft_plots import LEAST_MS, moving_percentiles, steps

COLOURS: dict[Word, str] = {"worse": VERMILION, "better": GREEN, "differs": BLUE, "same": GREY,
                            "one number": GREY, "too few": GREY}  # fmt: skip
TOLD = ("worse", "better", "differs")
SIDES = (("A", BLUE), ("B", ORANGE))
NAMES_IN, WORDS_IN = 2.25, 0.95  # room for names and words beside the intervals
ROW_IN = 0.235


def pictures(found: Comparison) -> list[Picture]:
    """Draw all that there is something to draw for."""
    a, b = found.sides.a.requests, found.sides.b.requests
    drawn = [("compare_intervals", intervals(found))]
    timed = [side[side["ttft_scheduled_ms"].notna()] for side in (a, b)]
    if all(len(side) for side in timed):
        drawn.append(("compare_ttft", ttft(timed)))
        if found.sides.paired and all((side["ttft_scheduled_ms"] > 0).any() for side in timed):
            drawn.append(("compare_pairs", pairs(a, b)))
        drawn.append(("compare_over_time", over_time(found.sides.a, found.sides.b)))
        if all(side[list(PARTS_KNOWN)].notna().any(axis=None) for side in timed):
            drawn.append(("compare_parts", parts(timed)))
    drawn.append(("compare_hits", hits(a, b)))
    return [Picture(name, made.texts[0].get_text(), canvas.png(made)) for name, made in drawn]


def intervals(found: Comparison) -> Figure:
    """Ratio B / A of every metric with an interval, on a logarithmic axis."""
    rows = [row for row in found.rows if row.interval is not None and _positive(row)][::-1]
    made, (axes,) = canvas.figure(
        headline(found),
        f"Ratio B / A with its {found.confidence:.0%} bootstrap interval;"
        f" {'requests are paired' if found.sides.paired else 'requests are not paired'}",
        panels=(ROW_IN * max(len(rows), 4),),
    )
    left, bottom, wide, tall = axes.get_position().bounds
    inner = (NAMES_IN / canvas.WIDTH_IN, (NAMES_IN + WORDS_IN) / canvas.WIDTH_IN)
    axes.set_position((inner[0], bottom, left + wide - inner[1], tall))
    for place, row in enumerate(rows):
        _interval(axes, place, row)
    axes.axvline(1, color=INK, linewidth=1.0, zorder=1)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_yticks(range(len(rows)), [row.metric for row in rows], size=8.5, color=INK)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=canvas.RULE, linewidth=0.8)
    _change_axis(axes, [bound for row in rows for bound in _ends(row)])
    axes.set_xlabel("change from A to B", size=9.5)
    return made


def ttft(timed: Sequence[pd.DataFrame]) -> Figure:
    """Cumulative distributions of TTFT from the scheduled arrival."""
    values = [np.sort(side["ttft_scheduled_ms"].to_numpy(dtype=float)) for side in timed]
    medians = [float(np.median(side)) for side in values]
    tails = [float(np.percentile(side, 99)) for side in values]
    made, (axes,) = canvas.figure(
        f"TTFT p50 {duration(medians[0])} and {duration(medians[1])},"
        f" p99 {duration(tails[0])} and {duration(tails[1])}",
        "Cumulative distribution of TTFT from the scheduled arrival, logarithmic time",
    )
    for (name, colour), side in zip(SIDES, values, strict=True):
        axes.plot(*steps(side), color=colour, linewidth=2.2, label=f"{name}, {len(side):,}")
    canvas.duration_axis(axes, "x", np.maximum(np.concatenate(values), LEAST_MS))
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    axes.set_ylabel("requests answered", size=9.5)
    axes.set_xlabel("TTFT", size=9.5)
    canvas.legend(axes)
    return made


def pairs(a: pd.DataFrame, b: pd.DataFrame) -> Figure:
    """How the TTFT of each request changed."""
    before, after = (side["ttft_scheduled_ms"].to_numpy(dtype=float) for side in (a, b))
    known = (before > 0) & (after > 0)
    quotient = after[known] / before[known]
    slower, faster = float((quotient > 1).mean()), float((quotient < 1).mean())
    made, (axes,) = canvas.figure(
        f"B was slower in {percent(slower)} of the same requests, faster in {percent(faster)}",
        f"TTFT of B / TTFT of A, {plural(int(known.sum()), 'request')};"
        f" the median changed by {change(float(np.median(quotient)))}",
        panels=(2.4,),
    )
    spread = max(float(np.abs(np.log(quotient)).max()), np.log(1.05))
    reach = min(spread, max(4 * float(np.percentile(np.abs(np.log(quotient)), 90)), np.log(1.05)))
    edges = np.exp(np.linspace(-reach, reach, 62))
    counts, _ = np.histogram(np.clip(quotient, edges[0], edges[-1]), edges)
    axes.stairs(counts, edges, fill=True, color=BLUE, alpha=0.85)
    axes.axvline(1, color=INK, linewidth=1.0)
    _change_axis(axes, [float(edges[0]), float(edges[-1])])
    axes.set_ylabel("requests", size=9.5)
    axes.set_xlabel("change of TTFT from A to B"
                    + ("; what is beyond is in the outermost bars" if reach < spread else ""),
                    size=9.5)  # fmt: skip
    return made


def over_time(a: Side, b: Side) -> Figure:
    """Moving p50 and p99 of both runs."""
    made, (axes,) = canvas.figure(
        "TTFT of both runs over time",
        "Percentiles of a moving window over arrivals; solid p50, dashed p99",
        panels=(2.8,),
    )
    last, seen = 0.0, []
    for (name, colour), side in zip(SIDES, (a, b), strict=True):
        timed = side.requests[side.requests["ttft_scheduled_ms"].notna()]
        at_s = canvas.arrivals_s(timed)
        values = timed["ttft_scheduled_ms"].to_numpy(dtype=float)
        middles, (median, _, tail) = moving_percentiles(at_s, values)
        last = max(last, float(at_s[-1]))
        seen += [np.maximum(line, LEAST_MS) for line in (median, tail)]
        for line, dashes, label in ((median, (0, ()), f"{name} p50"),
                                    (tail, (0, (4, 2)), f"{name} p99")):  # fmt: skip
            axes.plot(middles, np.maximum(line, LEAST_MS), color=colour, linewidth=1.8,
                      linestyle=dashes, label=label)  # fmt: skip
    scale, unit = canvas.time_scale(last)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:g}"))
    shown = np.concatenate(seen)
    canvas.duration_axis(axes, "y", shown[np.isfinite(shown)])
    axes.set_ylabel("TTFT", size=9.5)
    canvas.time_axis(axes, clock=str(a.files.run["clock"]), unit=unit, last=last)
    canvas.legend(axes)
    return made


def parts(timed: Sequence[pd.DataFrame]) -> Figure:
    """The parts of TTFT at its p50, p90 and p99, A above B."""
    tables = [parts_of(side) for side in timed]
    longest = max(float(table.sum(axis=1).max()) for table in tables)
    made, (axes,) = canvas.figure(
        "Where the time to the first token went",
        "Mean parts of the requests next to each percentile of TTFT, from the scheduled arrival",
        panels=(2.6,),
    )
    places = [(level, which) for level in LEVELS for which in (0, 1)]
    rows = np.arange(len(places))[::-1] + [0.12 * (1 - 2 * which) * -1 for _, which in places]
    ends = np.zeros(len(places))
    for name, label, colour in PARTS:
        widths = np.array([tables[which].loc[level, name] for level, which in places], dtype=float)
        if widths.max() <= 0.005 * longest:
            continue
        axes.barh(rows, widths, left=ends, height=0.66, color=colour, label=label,
                  edgecolor="white", linewidth=0.8)  # fmt: skip
        ends += widths
    for row, end in zip(rows, ends, strict=True):
        axes.text(end + 0.008 * longest, row, duration(end), va="center", size=9.5, color=INK)
    axes.set_xlim(0, longest * 1.1)
    axes.set_yticks(rows, [f"p{level}  {'AB'[which]}" for level, which in places], size=9.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axes.set_xlabel("time since the scheduled arrival", size=9.5)
    canvas.legend(axes)
    return made


def hits(a: pd.DataFrame, b: pd.DataFrame) -> Figure:
    """The share of prompt tokens that each tier served."""
    sums = [side.sum(numeric_only=True) for side in (a, b)]
    prompts = [float(side["prompt_tokens"]) or 1.0 for side in sums]
    rates = [sum(float(side[f"cached_tokens_{tier}"]) for tier, _ in TIERS) / prompt
             for side, prompt in zip(sums, prompts, strict=True)]  # fmt: skip
    made, (axes,) = canvas.figure(
        f"{percent(rates[0])} of the prompt tokens were hits in A, {percent(rates[1])} in B",
        "By tier; the line is what a cache without limits would have had",
        panels=(1.25,),
    )
    ends = np.zeros(2)
    for tier, colour in TIERS:
        widths = np.array([float(side[f"cached_tokens_{tier}"]) / prompt
                           for side, prompt in zip(sums, prompts, strict=True)])  # fmt: skip
        if widths.any():
            axes.barh([1, 0], widths, left=ends, height=0.62, color=colour, label=tier)
            ends += widths
    for place, side, prompt in zip((1, 0), sums, prompts, strict=True):
        ideal = float(side["ideal_tokens"]) / prompt
        axes.plot([ideal, ideal], [place - 0.4, place + 0.4], color=INK, linewidth=2,
                  label="possible without limits" if place else None)  # fmt: skip
    axes.set_xlim(0, 1)
    axes.set_yticks([1, 0], ["A", "B"], size=10, color=INK)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    axes.set_xlabel("share of prompt tokens", size=9.5)
    canvas.legend(axes)
    return made


def _positive(row: Row) -> bool:
    return all(np.isfinite(bound) and bound > 0 for bound in _ends(row))


def _ends(row: Row) -> tuple[float, float, float]:
    assert row.interval is not None
    return row.interval.ratio_low, row.ratio, row.interval.ratio_high


def _interval(axes: Axes, place: int, row: Row) -> None:
    low, at, high = _ends(row)
    colour = COLOURS[row.word]
    axes.plot([low, high], [place, place], color=colour, linewidth=3, alpha=0.55,
              solid_capstyle="butt")  # fmt: skip
    axes.plot([at], [place], "o", color=colour, markersize=5)
    axes.annotate(f"{change(at)} {row.word if row.word in TOLD else ''}".strip(), (1, place),
                  xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points",
                  va="center", size=8.5, color=colour if row.word in TOLD else INK,
                  annotation_clip=False)  # fmt: skip


def _change_axis(axes: Axes, bounds: Sequence[float]) -> None:
    """Logarithmic in the ratio and told as changes, with no change always in it."""
    logs = [float(np.log(bound)) for bound in bounds]
    low, high = min(0.0, *logs, -np.log(1.02)), max(0.0, *logs, np.log(1.02))
    room = 0.06 * (high - low)
    axes.set_xscale("log")
    axes.set_xlim(np.exp(low - room), np.exp(high + room))
    factors = (1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)
    ticks = [1.0]
    for sign, end in ((-1, low), (1, high)):
        last = 0.0
        for factor in factors:
            at = float(np.log(factor))
            if at <= abs(end) + room and at - last >= 0.11 * (high - low):
                ticks.append(factor**sign)
                last = at
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: change(value)))
