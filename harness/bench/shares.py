"""Where the time of a run goes, part by part and function by function.

Invariant: the shares of one run add up to 1.
"""

from typing import NamedTuple

from harness.bench.bare import Excerpt
from harness.bench.fresh import in_fresh_process
from harness.bench.sampler import INTERVAL_S, Sampler
from harness.bench.sheet import Cell, Sheet
from harness.bench.world import CASES, LONGEST, REFERENCE, Case

PARTS = ("kernel", "cache", "oracles", "records", "workload", "engine", "other")
HOTTEST = 12
USUAL = "soak, oracles sampled"  # whose hottest functions are shown
SAMPLED = (REFERENCE, USUAL, LONGEST)


class Sampled(NamedTuple):
    """Shares of one run's processor time, of 1."""

    samples: int
    parts: dict[str, float]
    functions: dict[str, float]


def measure(trace: Excerpt) -> tuple[Sheet, Sheet]:
    """The parts, and the functions that are hottest in a soak as it usually is."""
    runs = {name: in_fresh_process(_sampled, CASES[name], trace) for name in SAMPLED}
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


def _sampled(case: Case, trace: Excerpt) -> Sampled:
    run = case(trace)
    with Sampler() as sampler:
        run.run()
    parts, total = sampler.parts(), sampler.samples
    return Sampled(
        total,
        {part: parts[part] / total for part in PARTS},
        {".".join(name): count / total for name, count in sampler.functions.items()},
    )


def _row(name: str, shares: list[dict[str, float]]) -> tuple[Cell, ...]:
    return (name, *(100 * share.get(name, 0.0) for share in shares))


def _notes(runs: dict[str, Sampled]) -> tuple[str, ...]:
    samples = ", ".join(f"{run.samples:,}" for run in runs.values())
    return (
        "Measured by a timer on the process's processor time, asked for every"
        f" {1000 * INTERVAL_S:g} ms (a system may give it less often): {samples} samples. Each is"
        " charged to the innermost frame that is this program's; what numpy, hashlib and the"
        " interpreter do counts for whoever called them.",
        "records: marks, gauges, run directory, plots, report. workload: reading the trace and"
        " making its tokens. A share of p % is known to within 2 sqrt(p (100 - p) / samples).",
    )
