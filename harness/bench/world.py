"""A whole production trace in model time: how long it takes here, and how much memory.

Every run has a process of its own. Invariant: rows with the same digest did the same, event by
event, so none is faster by doing less for a request.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Protocol

from cache.null import NullCache
from cache.unified import UnifiedCache
from harness.bench.bare import BareRun, Excerpt, Ran
from harness.bench.fresh import in_fresh_process
from harness.bench.sheet import Cell, Sheet, spread_of
from harness.bench.soaked import SoakedRun
from harness.soak.settings import DEFAULT_TRACE
from workloads.bundled import bundled_trace

WHOLE_TRACE = Path("../shared/traces/mooncake/conversation_trace.jsonl")  # from the checkout


class Run(Protocol):
    """Made for one run."""

    def run(self) -> Ran: ...


Case = Callable[[Excerpt], Run]
REFERENCE, LONGEST = "reference cache", "soak, every oracle"
CASES: Mapping[str, Case] = {
    "null cache": partial(BareRun, kind=NullCache),
    REFERENCE: partial(BareRun, kind=UnifiedCache),
    "soak, oracles off": partial(SoakedRun, oracles="off"),
    "soak, oracles sampled": partial(SoakedRun, oracles="sampled"),
    LONGEST: partial(SoakedRun, oracles="every"),
}


def measure(trace: Excerpt, *, repeats: int) -> Sheet:
    runs = {
        name: [
            in_fresh_process(_run, case, trace) for _ in range(1 if name == LONGEST else repeats)
        ]
        for name, case in CASES.items()
    }
    firsts = [ran for ran, *_ in runs.values()]
    counted = {ran.digest: ran.operations for ran in firsts if ran.operations is not None}
    return Sheet(
        name="world",
        title=f"World: {trace.name}, {runs[REFERENCE][0].requests:,} requests, virtual clock",
        notes=_notes(repeats, trace),
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


def whole_trace() -> Excerpt:
    """The whole conversation trace where it can be had, else the bundled head of it."""
    path = Path(__file__).resolve().parents[2] / WHOLE_TRACE
    return Excerpt(path.resolve() if path.is_file() else bundled_trace(DEFAULT_TRACE))


def bundled_head(num_requests: int) -> Excerpt:
    """The first requests of the bundled trace."""
    return Excerpt(bundled_trace(DEFAULT_TRACE), num_requests)


def _run(case: Case, trace: Excerpt) -> Ran:
    return case(trace).run()


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
