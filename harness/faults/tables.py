"""What a score leaves behind: CSV, a picture of detection over time, the ablation table."""

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from harness.faults.score import FaultScore, Hunted

BLUE = "#0072b2"


class Ablation(NamedTuple):
    """The score without one oracle: what was then missed, and what spoke up later or otherwise."""

    oracle: str
    detected: int
    faults: int
    missed: tuple[str, ...]


def csv_of(rows: Sequence[NamedTuple]) -> str:
    """Rows of one kind as CSV, header first."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0]._fields)
    writer.writerows(rows)
    return text.getvalue()


def detection_plot(hunted: Sequence[Hunted], budget_s: float, path: Path) -> None:
    """Share of campaigns that have found their fault, over time."""
    seconds = np.sort([h.seconds for h in hunted if h.detected])
    share = np.arange(1, len(seconds) + 1) / len(hunted)
    figure, axes = plt.subplots(figsize=(9, 4.2), dpi=110)
    axes.step(seconds, share, where="post", color=BLUE, linewidth=2)
    axes.set_xscale("log")
    axes.set_xlim(1e-3, budget_s)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("seconds of hunting, one process (measured)")
    axes.set_ylabel("share of campaigns that found their fault")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    for seconds_ in (1, 10):
        if seconds_ <= budget_s:
            reached = float(np.mean([h.detected and h.seconds <= seconds_ for h in hunted]))
            axes.axvline(seconds_, color="#888888", linewidth=0.8, linestyle=":")
            axes.annotate(f"{reached:.1%} in {seconds_} s", (seconds_, 0.05), rotation=90,
                          ha="right", color="#444444", fontsize=9)  # fmt: skip
    faults = len({h.fault for h in hunted})
    axes.set_title(
        f"{sum(h.detected for h in hunted)} of {len(hunted)} campaigns against {faults} faults"
        " found theirs",
        loc="left",
        fontweight="bold",
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def markdown_of(rows: Sequence[FaultScore]) -> str:
    """The score as a Markdown table."""
    head = (
        "| fault | family | reached | triggered | detected | by | median s | p95 s |"
        " median schedules | story |\n" + "| --- " * 10 + "|\n"
    )
    return head + "".join(
        f"| {r.fault} | {r.family} | {r.reached}/{r.campaigns} | {r.triggered}/{r.campaigns} |"
        f" {r.detected}/{r.campaigns} | {r.oracle} | {r.median_s:.3f} | {r.p95_s:.3f} |"
        f" {r.median_schedules:.0f} | {r.story_steps} steps, {r.story_tasks} tasks |\n"
        for r in rows
    )
