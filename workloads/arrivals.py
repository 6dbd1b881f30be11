"""When sessions begin: each rule turns a count into sorted times in seconds.

A generated series begins at 0, so that no run begins with a wait, and its times are whole
microseconds, so that the last bit of a machine's logarithm cannot change a run. A rate of
`math.inf` puts every arrival at 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from workloads.errors import WorkloadError
from workloads.request import Session, Workload
from workloads.tokens import stream_seed
from workloads.workload import digest_of

Times = npt.NDArray[np.float64]


class Arrivals(Protocol):
    """A rule for the times at which sessions begin."""

    def times(self, n: int, rng: np.random.Generator) -> Times:
        """`n` times in seconds, ascending; the same for the same state of `rng`."""
        ...


@dataclass(frozen=True)
class Constant:
    """`rate_per_s` sessions a second, evenly spaced."""

    rate_per_s: float

    def __post_init__(self) -> None:
        _check_positive("the request rate", self.rate_per_s)

    def times(self, n: int, rng: np.random.Generator) -> Times:
        return _from_gaps(np.full(max(n - 1, 0), 1 / self.rate_per_s), n)


@dataclass(frozen=True)
class Poisson:
    """`rate_per_s` sessions a second on average, independent of each other."""

    rate_per_s: float

    def __post_init__(self) -> None:
        _check_positive("the request rate", self.rate_per_s)

    def times(self, n: int, rng: np.random.Generator) -> Times:
        return _from_gaps(rng.exponential(1 / self.rate_per_s, max(n - 1, 0)), n)


@dataclass(frozen=True)
class Gamma:
    """Gaps with a gamma distribution of shape `burstiness` and mean 1 / `rate_per_s`.

    Burstiness 1 is Poisson, less is burstier, more is smoother; the gaps' coefficient of variation
    is burstiness ** -0.5.
    """

    rate_per_s: float
    burstiness: float

    def __post_init__(self) -> None:
        _check_positive("the request rate", self.rate_per_s)
        _check_positive("the burstiness", self.burstiness)
        if math.isinf(self.burstiness):
            raise WorkloadError("the burstiness must be finite; for even gaps use constant")

    def times(self, n: int, rng: np.random.Generator) -> Times:
        scale = 1 / (self.rate_per_s * self.burstiness)
        return _from_gaps(rng.gamma(self.burstiness, scale, max(n - 1, 0)), n)


@dataclass(frozen=True)
class Burst:
    """`size` sessions at one instant, every `every_s` seconds."""

    size: int
    every_s: float

    def __post_init__(self) -> None:
        if self.size < 1:
            raise WorkloadError(f"the burst size must be at least 1, not {self.size}")
        _check_positive("the time between bursts", self.every_s)
        if math.isinf(self.every_s):
            raise WorkloadError("the time between bursts must be finite")

    def times(self, n: int, rng: np.random.Generator) -> Times:
        return _whole_microseconds((np.arange(n) // self.size) * np.float64(self.every_s))


@dataclass(frozen=True)
class Recorded:
    """Times as somebody recorded them, multiplied by `time_scale` (2.0 is twice as slow)."""

    times_s: Sequence[float]
    time_scale: float = 1.0

    def __post_init__(self) -> None:
        check_time_scale(self.time_scale)
        times = np.asarray(self.times_s, np.float64)
        if not np.isfinite(times).all() or (times < 0).any() or (np.diff(times) < 0).any():
            raise WorkloadError("recorded times must be finite, at least 0 and in order")

    def __str__(self) -> str:
        return f"Recorded({len(self.times_s)} times, time_scale={self.time_scale})"

    def times(self, n: int, rng: np.random.Generator) -> Times:
        if n > len(self.times_s):
            raise WorkloadError(f"{n} sessions need {n} recorded times; got {len(self.times_s)}")
        return np.asarray(self.times_s[:n], np.float64) * self.time_scale


def reschedule(workload: Workload, arrivals: Arrivals, seed: int) -> Workload:
    """`workload` with its sessions beginning at the times of `arrivals`, in their old order.

    Later turns with an absolute time keep their distance from the first; those with a delay keep
    the delay. The result is lazy; every reading draws the same times from `seed`.
    """
    return _Rescheduled(workload, arrivals, seed)


@dataclass(frozen=True)
class _Rescheduled:
    inner: Workload
    arrivals: Arrivals
    seed: int

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def source(self) -> Mapping[str, str | int | float]:
        return {**self.inner.source, "arrivals": str(self.arrivals), "arrivals_seed": self.seed}

    def sessions(self) -> Iterator[Session]:
        count = sum(1 for _ in self.inner.sessions())
        rng = np.random.Generator(np.random.PCG64(stream_seed(self.seed, "arrivals")))
        times = self.arrivals.times(count, rng).tolist()
        for session, begins in zip(self.inner.sessions(), times, strict=True):
            yield _moved(session, begins)

    def digest(self) -> str:
        return digest_of(self.sessions())


def _moved(session: Session, begins: float) -> Session:
    earlier = session.turns[0].arrival_s
    turns = (replace(turn, arrival_s=begins + (turn.arrival_s - earlier)) for turn in session.turns)
    return Session(session.session_id, tuple(turns))


def check_time_scale(time_scale: float) -> None:
    """Raise unless recorded times can be multiplied by `time_scale`."""
    _check_positive("the time scale", time_scale)
    if math.isinf(time_scale):
        raise WorkloadError("the time scale must be finite; 2.0 is twice as slow")


def _check_positive(what: str, value: float) -> None:
    if not value > 0:
        raise WorkloadError(f"{what} must be more than 0, not {value}")


def _from_gaps(gaps: Times, n: int) -> Times:
    times = np.zeros(n)
    np.cumsum(gaps, out=times[1:])
    return _whole_microseconds(times)


def _whole_microseconds(times: Times) -> Times:
    return np.asarray(np.round(times * 1e6) / 1e6, np.float64)
