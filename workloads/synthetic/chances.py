"""Seeded chance for generated traffic, one generator for each named purpose.

Every purpose has its own generator, so that one more session or one more option changes nothing
else of a workload.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads.errors import WorkloadError
from workloads.tokens import stream_seed


def generator(*purpose: int | str) -> np.random.Generator:
    """The generator for `purpose`, which begins with the workload's seed."""
    return np.random.Generator(np.random.PCG64(stream_seed(*purpose)))


def zipf_cdf(n: int, exponent: float) -> npt.NDArray[np.float64]:
    """Cumulative popularity of `n` groups, the k-th of weight k ** -exponent; 0 is uniform."""
    cdf = np.cumsum(np.arange(1, n + 1, dtype=np.float64) ** -exponent)
    cdf /= cdf[-1]
    return cdf


def pick(cdf: npt.NDArray[np.float64], rng: np.random.Generator) -> int:
    """The index of one draw from the cumulative distribution `cdf`."""
    return int(np.searchsorted(cdf, rng.random(), side="right").clip(0, len(cdf) - 1))


def check_share(what: str, share: float) -> None:
    """Raise unless `share` is in [0, 1]."""
    if not 0 <= share <= 1:
        raise WorkloadError(f"{what} must be a share from 0 to 1, not {share}")


def check_count(what: str, count: int, *, at_least: int = 1) -> None:
    """Raise unless `count` is a whole number of at least `at_least`."""
    if type(count) is not int or count < at_least:
        raise WorkloadError(f"{what} must be a whole number of at least {at_least}, not {count}")


def check_exponent(exponent: float) -> None:
    """Raise unless groups can be as unevenly popular as `exponent` says."""
    if not 0 <= exponent <= 10:
        raise WorkloadError(f"zipf_exponent must be from 0 to 10, not {exponent}")
