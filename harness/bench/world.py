"""A whole production trace in model time: how long it takes here, and how much memory.

Invariant: rows with the same digest did the same, event by event, so none is faster by doing less
for a request.
"""

from collections.abc import Mapping
from statistics import median

from harness.bench.bare import Excerpt, Ran
from harness.bench.runs import LONGEST, REFERENCE, WHOLE_TRACE, Measured
from harness.bench.sheet import Cell, Sheet, spread_of


def tabulate(measured: Mapping[str, list[Measured]], trace: Excerpt) -> Sheet:
    """What `measure_runs` found out about `trace`."""
    runs = {name: [one.ran for one in several] for name, several in measured.items()}
    firsts = [ran for ran, *_ in runs.values()]
    counted = {ran.digest: ran.operations for ran in firsts if ran.operations is not None}
    return Sheet(
        name="world",
        title=f"World: {trace.name}, {runs[REFERENCE][0].requests:,} requests, virtual clock",
        notes=_notes(len(runs[REFERENCE]), trace),
        columns=(
            "run",
            "wall_s",
            "min_s",
            "max_s",
            "cpu_s",
            "model_h",
            "events",
            "events_per_s",
            "operations",
            "operations_per_s",
            "peak_rss_mb",
            "violations",
            "digest",
        ),
        rows=tuple(_row(name, ran, counted.get(ran[0].digest)) for name, ran in runs.items()),
    )


def _row(name: str, runs: list[Ran], operations: int | None) -> tuple[Cell, ...]:
    wall = spread_of([ran.wall_s for ran in runs])
    cpu_s = median(ran.cpu_s for ran in runs)
    first = runs[0]
    assert all(ran.digest == first.digest for ran in runs), name
    return (
        name,
        wall.median,
        wall.least,
        wall.most,
        cpu_s,
        first.model_s / 3600,
        first.events,
        first.events / cpu_s,
        operations,
        operations and operations / cpu_s,
        max(ran.peak_rss_bytes for ran in runs) / 1e6,
        first.violations,
        first.digest,
    )


def _notes(repeats: int, trace: Excerpt) -> tuple[str, ...]:
    whole = trace.path.stem == WHOLE_TRACE.stem and trace.num_requests is None
    what = "The whole" if whole else "Only a head of the"
    return (
        f"{what} Mooncake conversation trace at its own speed, on the configuration that `soak`"
        f" takes when it is given no flags; one process a run, one core; {repeats} repeats, 1"
        f" of '{LONGEST}'; the median and the extremes of the wall time, the"
        " median of the processor time, to which the rates refer.",
        "events: steps of the kernel. operations: those of the cache's contract that do work"
        " (match, load_back, settle, extend, read, commit, finish, abort, acknowledge).",
        "null cache and reference cache: the world alone, no records, no oracles. soak: with"
        " records, marks, plots and report. Wanted: below 60 s sampled, below 300 s with every"
        " oracle after every event.",
        "peak_rss_mb: the most memory that the process had resident, the interpreter included.",
    )
