"""A whole production trace in model time: how long it takes here, and how much memory.

Every run has a process of its own. Invariant: rows with the same digest did the same, event by
event, so none is faster by doing less for a request.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from cache.null import NullCache
from cache.unified import UnifiedCache
from harness.bench.bare import BareRun, Ran
from harness.bench.fresh import in_fresh_process
from harness.bench.sheet import Cell, Sheet, spread_of
from harness.bench.soaked import SoakedRun
from harness.soak.settings import DEFAULT_TRACE
from workloads.bundled import bundled_trace

WHOLE_TRACE = Path("../shared/traces/mooncake/conversation_trace.jsonl")  # from the checkout


class Run(Protocol):
    """Made for one run."""

    def run(self) -> Ran: ...


Case = Callable[[Path], Run]
REFERENCE = "reference cache"
CASES: Mapping[str, Case] = {
    "null cache": partial(BareRun, kind=NullCache),
    REFERENCE: partial(BareRun, kind=UnifiedCache),
    "soak, oracles off": partial(SoakedRun, oracles="off"),
    "soak, oracles sampled": partial(SoakedRun, oracles="sampled"),
    "soak, every oracle": partial(SoakedRun, oracles="every"),
}


def measure(repeats: int, *, whole: bool) -> Sheet:
    trace = trace_file(whole=whole)
    runs = {
        name: [in_fresh_process(_run, case, trace) for _ in range(repeats)]
        for name, case in CASES.items()
    }
    firsts = [ran for ran, *_ in runs.values()]
    counted = {ran.digest: ran.operations for ran in firsts if ran.operations is not None}
    return Sheet(
        name="world",
        title=f"World: {trace.stem}, {runs[REFERENCE][0].requests:,} requests, virtual clock",
        notes=_notes(repeats, whole and trace.stem == WHOLE_TRACE.stem),
        columns=(
            "run",
            "wall_s",
            "min_s",
            "max_s",
            "model_h",
            "events",
            "events_per_s",
            "operations",
            "operations_per_s",
            "peak_rss_mb",
            "digest",
        ),
        rows=tuple(_row(name, ran, counted.get(ran[0].digest)) for name, ran in runs.items()),
    )


def trace_file(*, whole: bool) -> Path:
    """The whole conversation trace where it can be had, else the bundled head of it."""
    path = Path(__file__).resolve().parents[2] / WHOLE_TRACE
    return path.resolve() if whole and path.is_file() else bundled_trace(DEFAULT_TRACE)


def _run(case: Case, trace: Path) -> Ran:
    return case(trace).run()


def _row(name: str, runs: list[Ran], operations: int | None) -> tuple[Cell, ...]:
    wall = spread_of([ran.wall_s for ran in runs])
    first = runs[0]
    assert all(ran.digest == first.digest for ran in runs), name
    return (
        name,
        wall.median,
        wall.least,
        wall.most,
        first.model_s / 3600,
        first.events,
        first.events / wall.median,
        operations,
        operations and operations / wall.median,
        max(ran.peak_rss_bytes for ran in runs) / 1e6,
        first.digest,
    )


def _notes(repeats: int, is_whole: bool) -> tuple[str, ...]:
    trace = "The whole" if is_whole else "The bundled head of the"
    return (
        f"{trace} Mooncake conversation trace at its own speed, on the configuration that `soak`"
        f" takes when it is given no flags; one process a run, one core; {repeats} repeats, the"
        " median and the extremes of the wall time.",
        "events: steps of the kernel. operations: those of the cache's contract that do work"
        " (match, load_back, settle, extend, read, commit, finish, abort, acknowledge).",
        "null cache and reference cache: the world alone, no records, no oracles. soak: with"
        " records, marks, plots and report. Wanted: below 60 s sampled, below 300 s with every"
        " oracle after every event.",
        "peak_rss_mb: the most memory that the process had resident, the interpreter included.",
    )
