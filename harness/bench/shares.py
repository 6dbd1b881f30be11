"""Where the time of a run goes, part by part and function by function.

Invariant: the shares of one run add up to 1.
"""

from collections.abc import Mapping

from harness.bench.bare import Excerpt
from harness.bench.runs import USUAL, Measured
from harness.bench.sampler import INTERVAL_S, Shares
from harness.bench.sheet import Cell, Sheet

PARTS = ("kernel", "cache", "oracles", "records", "workload", "engine", "other")
HOTTEST = 12


def tabulate(measured: Mapping[str, list[Measured]], trace: Excerpt) -> tuple[Sheet, Sheet]:
    """The parts, and the functions that are hottest in a soak as it usually is, of the first run
    of each case."""
    runs = {name: first.shares for name, (first, *_) in measured.items()}
    columns = [name.replace(", ", " ").replace(" ", "_") + "_pct" for name in runs]
    usual = runs[USUAL].functions
    hottest = sorted(usual, key=lambda name: (-usual[name], name))[:HOTTEST]
    parts = Sheet(
        name="shares",
        title=f"Shares of processor time: {trace.name}",
        notes=_notes(runs),
        columns=("part", *columns),
        rows=tuple(_row(part, [run.parts for run in runs.values()]) for part in PARTS),
    )
    functions = Sheet(
        name="hottest",
        title=f"Hottest functions: {trace.name}",
        notes=(f"The {HOTTEST} hottest of the run '{USUAL}', from the same samples.",),
        columns=("function", *columns),
        rows=tuple(_row(name, [run.functions for run in runs.values()]) for name in hottest),
    )
    return parts, functions


def _row(name: str, shares: list[dict[str, float]]) -> tuple[Cell, ...]:
    return (name, *(100 * share.get(name, 0.0) for share in shares))


def _notes(runs: dict[str, Shares]) -> tuple[str, ...]:
    samples = ", ".join(f"{run.samples:,}" for run in runs.values())
    return (
        "Measured by a timer on the process's processor time, asked for every"
        f" {1000 * INTERVAL_S:g} ms (a system may give it less often): {samples} samples. Each is"
        " charged to the innermost frame that is this program's; what numpy, hashlib and the"
        " interpreter do counts for whoever called them.",
        "records: marks, gauges, run directory, plots, report. workload: reading the trace and"
        " making its tokens. A share of p % is known to within 2 sqrt(p (100 - p) / samples).",
    )
