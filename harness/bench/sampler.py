"""Where the time of a run goes, part by part.

A timer interrupts the process every so often of its own processor time, and the innermost frame of
this program is charged: what numpy, hashlib and the interpreter do is charged to whoever called
them. Invariant: every sample is charged exactly once.
"""

import signal
from collections import Counter
from functools import cache
from types import FrameType, TracebackType
from typing import NamedTuple, Self

INTERVAL_S = 0.001
OTHER = "other"
PARTS = {
    "cache": "cache",
    "cache.audit": "oracles",
    "harness.oracles": "oracles",
    "harness.engine": "engine",
    "harness.engine.marks": "records",
    "harness.engine.traffic": "records",
    "harness.explore": "kernel",
    "harness.record": "records",
    "harness.report": "records",
    "harness.soak": "records",
    "workloads": "workload",
    "workloads.footprint": "records",
}  # the longest prefix of a module's name decides


class Shares(NamedTuple):
    """Of 1, of one run's processor time: by part, and by function as module.function."""

    samples: int
    parts: dict[str, float]
    functions: dict[str, float]


class Sampler:
    """As a context manager, on the main thread of a process that uses no other SIGPROF.

    `functions` counts samples by (module, function), modules outside PARTS left out."""

    def __init__(self) -> None:
        self.samples = 0
        self.functions: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGPROF, self._tick)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)

    def parts(self) -> Counter[str]:
        """Samples by part; all parts together are `samples`."""
        counts: Counter[str] = Counter()
        for (module, _), count in self.functions.items():
            counts[part_of(module)] += count
        counts[OTHER] = self.samples - counts.total()
        return counts

    def shares(self) -> Shares:
        """Of a run that took at least one sample."""
        total, parts = self.samples, self.parts()
        return Shares(
            total,
            {part: count / total for part, count in parts.items()},
            {".".join(name): count / total for name, count in self.functions.items()},
        )

    def _tick(self, number: int, frame: FrameType | None) -> None:
        self.samples += 1
        while frame is not None:
            module = frame.f_globals.get("__name__", "")
            if part_of(module) != OTHER:
                self.functions[module, frame.f_code.co_name] += 1
                return
            frame = frame.f_back


@cache
def part_of(module: str) -> str:
    """The part that a module of this program belongs to, or OTHER."""
    names = module.split(".")
    prefixes = (".".join(names[:length]) for length in range(len(names), 0, -1))
    return next((PARTS[prefix] for prefix in prefixes if prefix in PARTS), OTHER)
