"""How many requests waited and ran, and how large the steps were, over the run."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from harness.report import canvas
from harness.report.canvas import BLUE, SKY, VERMILION
from harness.report.quantities import count, plural


def queue_over_time(series: pd.DataFrame, *, clock: str) -> Figure:
    """Waiting and running requests above, tokens of the last step below."""
    at_s = series.index.to_numpy(dtype=float)
    scale, unit = canvas.time_scale(at_s[-1])
    queue, running = series["queue_requests"], series["running_requests"]
    made, axes = canvas.figure(
        f"At most {plural(int(queue.max()), 'request')} waited, at most {int(running.max()):,} ran",
        f"Sampled {plural(len(series), 'time')}; on average {count(round(running.mean(), 1))} ran"
        f" and {count(round(queue.mean(), 1))} waited",
        panels=(1.9, 1.3) if "batch_tokens" in series else (2.6,),
    )
    axes[0].plot(at_s / scale, queue, color=VERMILION, linewidth=1.4, label="waiting")
    axes[0].plot(at_s / scale, running, color=BLUE, linewidth=1.4, label="running")
    axes[0].set_ylabel("requests", size=9.5)
    canvas.legend(axes[0], heading="Requests")
    if "batch_tokens" in series:
        axes[1].fill_between(
            at_s / scale,
            series["batch_tokens"].to_numpy(),
            color=SKY,
            alpha=0.45,
            linewidth=0,
            label="tokens of the last step",
        )
        axes[1].plot(at_s / scale, series["batch_tokens"], color=BLUE, linewidth=0.9)
        axes[1].set_ylabel("tokens", size=9.5)
        canvas.legend(axes[1], heading="Batch")
    for panel in axes:
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        canvas.time_axis(panel, clock=clock, unit=unit, last=at_s[-1] / scale)
    canvas.share_x_labels(axes)
    return made
