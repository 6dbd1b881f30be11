"""Which tier served how much of the prompts, over the run.

Rates are sums of tokens over sums of prompt tokens of a window, never means of rates.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from harness.report import canvas
from harness.report.canvas import BLUE, GREEN, INK, ORANGE
from harness.report.quantities import percent

TIERS = (("device", BLUE), ("host", ORANGE), ("storage", GREEN))


def hit_rate_over_time(requests: pd.DataFrame, *, clock: str) -> Figure:
    """Which share of the prompt tokens each tier served, and which share an unlimited cache would
    have.
    """
    at_s = canvas.arrivals_s(requests)
    scale, unit = canvas.time_scale(at_s[-1])
    windows = int(np.clip(len(requests) // 40, 6, 80))
    edges = np.linspace(0, at_s[-1] or 1, windows + 1)
    which = np.minimum(np.searchsorted(edges, at_s, side="right") - 1, windows - 1)
    sums = requests.groupby(which).sum(numeric_only=True)
    sums = sums[sums["prompt_tokens"] > 0]
    middles = (edges[sums.index.to_numpy()] + edges[sums.index.to_numpy() + 1]) / 2 / scale
    prompt = requests["prompt_tokens"].sum() or 1
    tiers = [
        (tier, colour, f"cached_tokens_{tier}")
        for tier, colour in TIERS
        if tier != "storage" or requests["cached_tokens_storage"].any()
    ]
    rates = {tier: 100 * requests[name].sum() / prompt for tier, _, name in tiers}
    parts = ", ".join(f"{tier} {rate:.1f} %" for tier, rate in rates.items())
    possible = percent(float(requests["ideal_tokens"].sum() / prompt))
    made, (axes,) = canvas.figure(
        f"{sum(rates.values()):.1f} % of the prompt tokens were cached ({parts})",
        "Rates are per prompt token of a window; a cache without limits would have had"
        f" {possible} in all",
    )
    shares = [sums[name] / sums["prompt_tokens"] for _, _, name in tiers]
    axes.stackplot(
        middles,
        *shares,
        colors=[c for _, c, _ in tiers],
        labels=[t for t, _, _ in tiers],
        alpha=0.85,
        linewidth=0,
    )
    axes.plot(
        middles,
        sums["ideal_tokens"] / sums["prompt_tokens"],
        color=INK,
        linewidth=1.6,
        linestyle=(0, (4, 2)),
        label="possible without limits",
    )
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    axes.set_ylabel("share of prompt tokens", size=9.5)
    canvas.time_axis(axes, clock=clock, unit=unit, last=at_s[-1] / scale)
    canvas.legend(axes)
    return made
