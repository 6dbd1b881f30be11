"""The server's own word beside its client's: first tokens, hits, pools, what moved.

Rates are differences of totals over the time between two samples; a sample in which the server said
nothing is left out, never drawn as zero.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from harness.report import canvas
from harness.report.canvas import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, VERMILION
from harness.report.quantities import count, duration, percent

BINS = 60
TIERS = (("device", BLUE), ("host", ORANGE), ("storage", GREEN))
MOVES = (
    ("server_evicted_tokens", "evicted from the device", VERMILION),
    ("server_load_back_tokens", "loaded back from the host", GREEN),
    ("server_backup_tokens", "backed up to the host", PURPLE),
)


class Pool(NamedTuple):
    """One panel: layers from below, and what they fill."""

    heading: str
    layers: tuple[tuple[str, str, str], ...]
    total: str


POOLS = (
    Pool(
        "device",
        (
            ("server_device_used_tokens", "held by requests", BLUE),
            ("server_device_evictable_tokens", "cached, may go", SKY),
        ),
        "server_device_total_tokens",
    ),
    Pool("host", (("server_host_used_tokens", "used", ORANGE),), "server_host_total_tokens"),
)


def ttft_both_sides(requests: pd.DataFrame, series: pd.DataFrame, *, span_s: float) -> Figure:
    """Mean TTFT of the client (from the send) and of the server, in windows of equal samples."""
    totals = series[["server_ttft_total_s", "server_ttft_requests"]].dropna()
    edges, sums = _edges(totals)
    numbers = np.diff(sums["server_ttft_requests"].to_numpy())
    with np.errstate(invalid="ignore", divide="ignore"):
        theirs_ms = np.diff(sums["server_ttft_total_s"].to_numpy()) / numbers * 1e3
    timed = requests[requests["ttft_ms"].notna()]
    ours_ms = _means(timed["first_token_ns"].to_numpy() / 1e9, timed["ttft_ms"].to_numpy(), edges)
    scale, unit = canvas.time_scale(span_s)
    middles = (edges[1:] + edges[:-1]) / 2 / scale
    last = totals.iloc[-1]
    server = last["server_ttft_total_s"] / max(last["server_ttft_requests"], 1) * 1e3
    made, (axes,) = canvas.figure(
        f"Mean TTFT: {duration(timed['ttft_ms'].mean())} at the client, {duration(server)} by the"
        " server's own clock",
        f"Means of windows; the client counts from the send, {len(timed):,} requests; the server"
        f" counted {last['server_ttft_requests']:,.0f}",
        panels=(2.4,),
    )
    for values, label, colour in ((ours_ms, "client", BLUE), (theirs_ms, "server", VERMILION)):
        seen = np.isfinite(values)
        axes.plot(middles[seen], values[seen], color=colour, linewidth=1.8, marker="o",
                  markersize=3.5, label=label)  # fmt: skip
    shown = np.concatenate((ours_ms, theirs_ms))
    axes.set_ylim(0, np.nanmax(shown) * 1.12 if np.isfinite(shown).any() else 1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axes.set_ylabel("mean TTFT", size=9.5)
    canvas.time_axis(axes, clock="wall", unit=unit, last=span_s / scale)
    canvas.legend(axes)
    return made


def server_hits(series: pd.DataFrame, *, span_s: float) -> Figure:
    """Tokens a second that each tier gave, below the prompt tokens that were asked."""
    names = [f"server_cached_{tier}_tokens" for tier, _ in TIERS]
    totals = series[[n for n in ("server_prompt_tokens", *names) if n in series]].dropna()
    edges, sums = _edges(totals)
    asked = totals["server_prompt_tokens"].iloc[-1]
    tiers = [(t, c, f"server_cached_{t}_tokens") for t, c in TIERS
             if f"server_cached_{t}_tokens" in totals]  # fmt: skip
    gave = ", ".join(
        f"{tier} {percent(totals[name].iloc[-1] / asked if asked else 0)}"
        for tier, _, name in tiers
    )
    made, (axes,) = canvas.figure(
        f"By the server's count: {gave} of the prompt tokens were hits",
        f"Tokens a second by tier, of {asked:,.0f} prompt tokens; a server may count a hit and its"
        " prompt at different moments",
        panels=(2.4,),
    )
    scale, unit = canvas.time_scale(span_s)
    rates = [_rate(sums, name, edges) for _, _, name in tiers]
    _stack(axes, edges / scale, rates, [c for _, c, _ in tiers], [t for t, _, _ in tiers])
    asked_rate = _rate(sums, "server_prompt_tokens", edges)
    axes.stairs(asked_rate, edges / scale, color=INK, linewidth=1.4, label="prompt tokens")
    axes.set_ylim(bottom=0)
    _token_axis(axes, "tokens/s")
    canvas.time_axis(axes, clock="wall", unit=unit, last=span_s / scale)
    canvas.legend(axes)
    return made


def server_pools(series: pd.DataFrame, *, span_s: float) -> Figure:
    """What the device and the host held; a share where the server tells no more."""
    shown = [pool for pool in POOLS if pool.layers[0][0] in series]
    scale, unit = canvas.time_scale(span_s)
    made, axes = canvas.figure(
        _fullest(series, shown),
        "By the server's count; the dashed line is the pool's size",
        panels=[1.6] * max(len(shown), 1),
    )
    for panel, pool in zip(axes, shown, strict=False):
        layers = [layer for layer in pool.layers if layer[0] in series]
        columns = [name for name, _, _ in layers]
        known = series[columns].dropna()
        panel.stackplot(
            known.index / scale, *(known[name] for name in columns), alpha=0.85, linewidth=0,
            colors=[colour for _, _, colour in layers], labels=[label for _, label, _ in layers],
        )  # fmt: skip
        if pool.total in series:
            panel.axhline(series[pool.total].max(), color=INK, linewidth=1.2,
                          linestyle=(0, (4, 2)), label="pool size")  # fmt: skip
        panel.set_ylim(bottom=0)
        _token_axis(panel, "tokens")
        canvas.legend(panel, heading=pool.heading)
    if not shown:
        usage = series["server_device_usage"].dropna()
        axes[0].plot(usage.index / scale, usage, color=BLUE, linewidth=1.6, label="in use")
        axes[0].set_ylim(0, 1.02)
        axes[0].yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        canvas.legend(axes[0], heading="device")
    for panel in axes:
        canvas.time_axis(panel, clock="wall", unit=unit, last=span_s / scale)
    canvas.share_x_labels(axes)
    return made


def server_moves(series: pd.DataFrame, *, span_s: float) -> Figure:
    """Evictions, load-backs and backups, in tokens a second."""
    told = [move for move in MOVES if move[0] in series]
    scale, unit = canvas.time_scale(span_s)
    totals = {name: series[name].dropna().iloc[-1] for name, _, _ in told}
    made, (axes,) = canvas.figure(
        "; ".join(f"{count(round(totals[name]))} tokens {label}" for name, label, _ in told[:2]),
        "Tokens a second, by the server's count",
        panels=(2.0,),
    )
    for name, label, colour in told:
        edges, sums = _edges(series[[name]].dropna())
        axes.stairs(_rate(sums, name, edges), edges / scale, color=colour, linewidth=1.6,
                    label=label)  # fmt: skip
    axes.set_ylim(bottom=0)
    _token_axis(axes, "tokens/s")
    canvas.time_axis(axes, clock="wall", unit=unit, last=span_s / scale)
    canvas.legend(axes)
    return made


def _edges(totals: pd.DataFrame) -> tuple[np.ndarray, pd.DataFrame]:
    """Sample times that bound at most `BINS` windows, and the totals at them."""
    step = -(-len(totals) // BINS)
    kept = totals.iloc[::step]
    if kept.index[-1] != totals.index[-1]:
        kept = pd.concat([kept, totals.iloc[[-1]]])
    return kept.index.to_numpy(dtype=float), kept


def _rate(sums: pd.DataFrame, name: str, edges: np.ndarray) -> np.ndarray:
    widths = np.maximum(np.diff(edges), 1e-9)
    return np.asarray(np.diff(sums[name].to_numpy()) / widths)


def _means(at_s: np.ndarray, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    which = np.searchsorted(edges, at_s, side="right") - 1
    inside = (which >= 0) & (which < len(edges) - 1)
    sums = np.bincount(which[inside], weights=values[inside], minlength=len(edges) - 1)
    numbers = np.bincount(which[inside], minlength=len(edges) - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums / numbers)


def _stack(
    axes: Axes, edges: np.ndarray, rates: list[np.ndarray], colours: list[str], labels: list[str]
) -> None:
    base = np.zeros(len(edges) - 1)
    for rate, colour, label in zip(rates, colours, labels, strict=True):
        axes.stairs(base + rate, edges, baseline=base, fill=True, color=colour, alpha=0.85,
                    linewidth=0, label=label)  # fmt: skip
        base = base + rate


def _token_axis(axes: Axes, label: str) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_ylabel(label, size=9.5)


def _fullest(series: pd.DataFrame, shown: list[Pool]) -> str:
    if not shown:
        return f"The device's pool was at most {percent(series['server_device_usage'].max())} full"
    words = []
    for pool in shown:
        names = [name for name, _, _ in pool.layers if name in series]
        held = float(series[names].sum(axis=1).max())
        total = series[pool.total].max() if pool.total in series else 0
        words.append(f"{pool.heading} {percent(held / total)}" if total
                     else f"{pool.heading} {held:,.0f} tokens")  # fmt: skip
    return f"Fullest moment of the server's pools: {', '.join(words)}"
