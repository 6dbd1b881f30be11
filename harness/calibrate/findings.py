"""What a measurement of this machine hands in.

Invariant: whatever was measured is kept beside what was made of it, with its spread, so that a
reader can tell a quiet machine from a busy one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from cache.layout import Layout
from cache.model import KvDtype, ModelShape
from harness.bench.sheet import spread_of
from harness.engine.hardware import IoBackend

NOISY_SHARE = 0.25  # of the median: a wider distance between the quartiles is noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured: for which model, with how many repeats of each sample."""

    shape: ModelShape
    page_size: int
    kv_dtype: KvDtype
    tp: int
    device: str
    repeats: int
    backends: tuple[IoBackend, ...] = tuple(IoBackend)
    layouts: tuple[Layout, ...] = tuple(Layout)


class Sample(NamedTuple):
    """Seconds that one thing took, over its repeats."""

    name: str
    median_s: float
    iqr_s: float
    least_s: float
    most_s: float
    repeats: int

    @property
    def noisy(self) -> bool:
        return self.repeats > 1 and self.iqr_s > NOISY_SHARE * self.median_s


@dataclass(frozen=True, slots=True)
class Findings:
    """`hardware` are fields of `Hardware`, by name; `samples` what they were made of; `misfits` by
    name how far, as a share of the time measured, the worst sample lies from what was made of it.
    """

    hardware: Mapping[str, Any]
    samples: Sequence[Sample]
    misfits: Mapping[str, float] = field(default_factory=dict)


class Measurement(Protocol):
    """A module of this package, listed in `run.MEASUREMENTS`."""

    NAME: str

    def measure(self, settings: Settings) -> Findings:
        """Takes a while. Raises `ConfigError` where the settings ask for what is not here, and
        `RuntimeError` where memory gives out."""


def samples_of(repeats: int, work: Mapping[str, Callable[[int], object]]) -> dict[str, Sample]:
    """Time everything in turn, `repeats` times over, so that what the machine is doing meanwhile
    falls on all. Each is told the number of the repeat and is over when it returns; the first
    round does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for number in range(repeats + 1):
        for name, one in work.items():
            start = perf_counter()
            one(number)
            if number:
                seconds[name].append(perf_counter() - start)
    return {name: sample_of(name, taken) for name, taken in seconds.items()}


def sample_of(name: str, seconds: Sequence[float]) -> Sample:
    spread = spread_of(seconds)
    return Sample(name, spread.median, spread.iqr, spread.least, spread.most, len(seconds))
