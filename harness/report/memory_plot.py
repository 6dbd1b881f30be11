"""What the pools held, one panel a pool.

Device pools are split into what a holder keeps (locked), what may go (evictable) and what belongs
to running requests or copies; the dashed line is the pool's size.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from harness.report import canvas
from harness.report.canvas import BLUE, GREEN, GREY, INK, ORANGE, SKY
from harness.report.quantities import percent, plural, size

# Lines of the last panel, drawn where more than the first was sampled.
_REAL = {
    "rss_bytes": ("resident", INK),
    "pss_bytes": ("its share", GREY),
    "device_tensor_bytes": ("device tensors", BLUE),
    "host_tensor_bytes": ("host tensors", ORANGE),
    "pinned_bytes": ("pinned", SKY),
    "allocator_bytes": ("torch allocator", GREEN),
}


MOST_SIZES = 4  # that a line has room for


class _Panel(NamedTuple):
    tier: str
    component: str
    pages: int
    page_bytes: int

    @property
    def stem(self) -> str:
        return f"{self.tier}_{self.component}"


def memory_over_time(
    series: pd.DataFrame, pools: Sequence[Mapping[str, Any]], *, clock: str
) -> Figure:
    """Draw every pool that was sampled; in bytes where the run says how large a page is."""
    at_s = series.index.to_numpy(dtype=float)
    scale, unit = canvas.time_scale(at_s[-1])
    panels = _panels(series, pools)
    real = [name for name in _REAL if name in series and series[name].max() > 0]
    made, axes = canvas.figure(
        _finding(series, panels),
        _explanation(panels),
        panels=[1.45] * (len(panels) + bool(real[1:])),
    )
    for panel, panel_axes in zip(panels, axes, strict=False):
        _draw(panel_axes, panel, series, at_s / scale)
    if real[1:]:
        _draw_process(axes[-1], series, real, at_s / scale)
    for panel_axes in axes:
        canvas.time_axis(panel_axes, clock=clock, unit=unit, last=at_s[-1] / scale)
    canvas.share_x_labels(axes)
    return made


def _draw_process(axes: Axes, series: pd.DataFrame, names: list[str], at: np.ndarray) -> None:
    """What the process and its tensors take, where bytes are real."""
    top = 0.0
    for name in names:
        values = _column(series, name)
        top = max(top, values.max())
        axes.plot(at, values, color=_REAL[name][1], linewidth=1.6, label=_REAL[name][0])
    canvas.size_axis(axes, top)
    canvas.legend(axes, heading="process")


def _panels(series: pd.DataFrame, pools: Sequence[Mapping[str, Any]]) -> list[_Panel]:
    sizes = {(pool["tier"], pool["component"].lower()): pool for pool in pools}
    found = []
    for tier in ("device", "host"):
        beside = (pool["component"].lower() for pool in pools)
        for component in dict.fromkeys(("full", "swa", "mamba", *beside)):
            if f"{tier}_{component}_used_pages" in series:
                pool = sizes.get((tier, component), {"pages": 0, "page_bytes": 0})
                found.append(_Panel(tier, component, pool["pages"], pool["page_bytes"]))
    return found


def _draw(axes: Axes, panel: _Panel, series: pd.DataFrame, at: np.ndarray) -> None:
    used = _column(series, f"{panel.stem}_used_pages")
    factor = panel.page_bytes or 1
    if f"{panel.stem}_locked_pages" in series:
        locked = _column(series, f"{panel.stem}_locked_pages")
        evictable = _column(series, f"{panel.stem}_evictable_pages")
        rest = np.maximum(used - locked - evictable, 0)
        layers = [locked * factor, rest * factor, evictable * factor]
        labels, colours = ["locked", "requests and copies", "evictable"], [BLUE, GREY, SKY]
    else:
        layers, labels, colours = [used * factor], ["used"], [ORANGE]
    axes.stackplot(at, *layers, colors=colours, labels=labels, alpha=0.85, linewidth=0)
    if panel.pages:
        axes.axhline(
            panel.pages * factor, color=INK, linewidth=1.2, linestyle=(0, (4, 2)), label="pool size"
        )
    top = max(used.max(), panel.pages) * factor
    if panel.page_bytes:
        canvas.size_axis(axes, top)
    else:
        axes.set_ylim(0, top * 1.06 or 1)
        axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_ylabel("pages", size=9.5)
    canvas.legend(axes, heading=f"{panel.tier} {panel.component.upper()}")


def _finding(series: pd.DataFrame, panels: list[_Panel]) -> str:
    sized = [panel for panel in panels if panel.pages]
    if not sized:
        most = max(series[f"{panel.stem}_used_pages"].max() for panel in panels)
        return f"No pool held more than {plural(int(most), 'page')}"
    peaks = [series[f"{panel.stem}_used_pages"].max() / panel.pages for panel in sized]
    words = [
        f"{panel.tier} {panel.component.upper()} {percent(peak)}"
        for panel, peak in zip(sized, peaks, strict=True)
    ]
    return f"Fullest moment of the pools: {', '.join(words[:2])}" + (
        "" if len(words) < 3 else ", ..."
    )


def _explanation(panels: list[_Panel]) -> str:
    sizes = [
        f"{panel.tier} {panel.component.upper()} {size(panel.pages * panel.page_bytes)}"
        for panel in panels
        if panel.pages and panel.page_bytes
    ]
    if not sizes:
        return "Slots in use by pool"
    rest = "" if len(sizes) <= MOST_SIZES else ", ..."
    return f"Slots in use; pool sizes: {', '.join(sizes[:MOST_SIZES])}{rest}"


def _column(series: pd.DataFrame, name: str) -> np.ndarray:
    return series[name].ffill().fillna(0).to_numpy(dtype=float)
