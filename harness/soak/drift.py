"""How far simulated TTFT is from the measured one, on the same traffic.

Invariant: only requests that both runs completed are compared, and by the same percentiles.
"""

from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

BLUE, ORANGE = "#0072B2", "#E69F00"
Series = NDArray[np.float64]


class Drift(NamedTuple):
    """Milliseconds, and errors as shares of what was measured: 0.1 is a tenth too slow."""

    requests: int
    wall_p50_ms: float
    virtual_p50_ms: float
    error_p50: float
    wall_p99_ms: float
    virtual_p99_ms: float
    error_p99: float
    median_request_error: float  # half of the requests are no further off, either way


def drift_between(wall: Path, virtual: Path) -> tuple[Drift, Series, Series]:
    """Of two `requests.csv`; with the TTFTs that were compared, in one order. Raises `ValueError`
    where they have no request in common."""
    pair = _ttft(wall).to_frame("wall").join(_ttft(virtual).rename("virtual"), how="inner")
    if pair.empty:
        raise ValueError("the two runs completed no request in common")
    measured = pair["wall"].to_numpy(dtype=float)
    simulated = pair["virtual"].to_numpy(dtype=float)
    wall_p50, wall_p99 = (float(ms) for ms in np.percentile(measured, (50, 99)))
    virtual_p50, virtual_p99 = (float(ms) for ms in np.percentile(simulated, (50, 99)))
    drift = Drift(
        requests=len(pair),
        wall_p50_ms=wall_p50,
        virtual_p50_ms=virtual_p50,
        error_p50=virtual_p50 / wall_p50 - 1,
        wall_p99_ms=wall_p99,
        virtual_p99_ms=virtual_p99,
        error_p99=virtual_p99 / wall_p99 - 1,
        median_request_error=float(np.median(np.abs(simulated / measured - 1))),
    )
    return drift, measured, simulated


def draw(drift: Drift, measured: Series, simulated: Series, path: Path) -> None:
    """Both distributions, one over the other."""
    figure, axes = plt.subplots(figsize=(9, 4.2), dpi=110)
    share = np.arange(1, len(measured) + 1) / len(measured)
    for values, colour, label in (
        (measured, BLUE, "wall clock, measured"),
        (simulated, ORANGE, "virtual clock, simulated"),
    ):
        axes.step(np.sort(values), share, where="post", color=colour, linewidth=2, label=label)
    axes.set_xscale("log")
    axes.set_xlabel("TTFT from the send, ms")
    axes.set_ylabel(f"share of {drift.requests:,} requests")
    axes.set_title(
        f"Simulated TTFT is {drift.error_p50:+.0%} off at p50, {drift.error_p99:+.0%} at p99",
        loc="left",
        fontweight="bold",
    )
    axes.legend(frameon=False)
    axes.grid(color="#E4E7EB", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def _ttft(path: Path) -> "pd.Series[float]":
    table = pd.read_csv(path, usecols=["request_id", "status", "ttft_ms"])
    done = table[(table["status"] == "completed") & (table["ttft_ms"] > 0)]
    ttft: pd.Series[float] = done.set_index("request_id")["ttft_ms"]
    return ttft
