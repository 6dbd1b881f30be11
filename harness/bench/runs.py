"""The runs of a whole trace that are compared, each in a process of its own.

Invariant: a run is timed and sampled at once, so shares and seconds belong together; the sampling
takes less than a thousandth of the time.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from cache.null import NullCache
from cache.unified import UnifiedCache
from harness.bench.bare import BareRun, Excerpt, Ran
from harness.bench.fresh import in_fresh_process
from harness.bench.sampler import Sampler, Shares
from harness.bench.soaked import SoakedRun
from harness.soak.settings import DEFAULT_TRACE
from workloads.bundled import bundled_trace

WHOLE_TRACE = Path("../shared/traces/mooncake/conversation_trace.jsonl")  # from the checkout


class Run(Protocol):
    """Made for one run."""

    def run(self) -> Ran: ...


Case = Callable[[Excerpt], Run]
REFERENCE, USUAL, LONGEST = "reference cache", "soak, oracles sampled", "soak, every oracle"
CASES: Mapping[str, Case] = {
    "null cache": partial(BareRun, kind=NullCache),
    REFERENCE: partial(BareRun, kind=UnifiedCache),
    "soak, oracles off": partial(SoakedRun, oracles="off"),
    USUAL: partial(SoakedRun, oracles="sampled"),
    LONGEST: partial(SoakedRun, oracles="every"),
}


class Measured(NamedTuple):
    ran: Ran
    shares: Shares


def measure_runs(trace: Excerpt, *, repeats: int) -> dict[str, list[Measured]]:
    """Every case `repeats` times, the longest once."""
    return {
        name: [
            in_fresh_process(_measured, case, trace)
            for _ in range(1 if name == LONGEST else repeats)
        ]
        for name, case in CASES.items()
    }


def whole_trace() -> Excerpt:
    """The whole conversation trace where it can be had, else the bundled head of it."""
    path = Path(__file__).resolve().parents[2] / WHOLE_TRACE
    return Excerpt(path.resolve() if path.is_file() else bundled_trace(DEFAULT_TRACE))


def bundled_head(num_requests: int) -> Excerpt:
    """The first requests of the bundled trace."""
    return Excerpt(bundled_trace(DEFAULT_TRACE), num_requests)


def _measured(case: Case, trace: Excerpt) -> Measured:
    run = case(trace)
    with Sampler() as sampler:
        ran = run.run()
    return Measured(ran, sampler.shares())
