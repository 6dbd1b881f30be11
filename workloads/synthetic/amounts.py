"""Small distributions for lengths in tokens and for pauses in seconds.

Each is written on a command line as `512`, `uniform:64,512` or `lognormal:512,0.8`, and prints
itself in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
import numpy.typing as npt

from workloads.errors import WorkloadError

LARGEST = 1 << 30


class Amount(Protocol):
    """A distribution of numbers of at least 0."""

    def draw(self, rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
        """`n` values; the same for the same state of `rng`."""
        ...


@dataclass(frozen=True, slots=True)
class Always:
    """One value."""

    value: float

    def __post_init__(self) -> None:
        _check(self, self.value >= 0, "a value of at least 0")

    def __str__(self) -> str:
        return _written(self.value)

    def draw(self, rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
        return np.full(n, float(self.value))


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every value from `low` to `high` alike."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _check(self, 0 <= self.low <= self.high, "0 <= low <= high")

    def __str__(self) -> str:
        return f"uniform:{_written(self.low, self.high)}"

    def draw(self, rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
        return self.low + (self.high - self.low) * rng.random(n)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Half of the values above `median`, a long tail for a larger `sigma`; never above `most`."""

    median: float
    sigma: float
    most: float = 1 << 20

    def __post_init__(self) -> None:
        _check(self, self.median > 0, "a median of more than 0")
        _check(self, self.sigma >= 0, "a sigma of at least 0")
        _check(self, self.most >= self.median, "a largest value of at least the median")

    def __str__(self) -> str:
        return f"lognormal:{_written(self.median, self.sigma, self.most)}"

    def draw(self, rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
        values = self.median * np.exp(self.sigma * rng.standard_normal(n))
        return np.asarray(np.minimum(values, self.most), np.float64)


def parse_amount(text: str) -> Amount:
    """The distribution that `text` describes; raises `WorkloadError` with the accepted forms."""
    kind, _, rest = text.rpartition(":")
    kinds = {"": (Always, 1, 1), "uniform": (Uniform, 2, 2), "lognormal": (LogNormal, 2, 3)}
    try:
        make, fewest, most = kinds[kind.strip()]
        numbers = [float(part) for part in rest.split(",")]
    except (KeyError, ValueError):
        raise _not_an_amount(text) from None
    if not fewest <= len(numbers) <= most:
        raise _not_an_amount(text)
    amount: Amount = make(*numbers)
    return amount


def tokens(amount: Amount, rng: np.random.Generator, n: int) -> list[int]:
    """`n` lengths: whole numbers of at least 1."""
    lengths: list[int] = np.maximum(np.rint(amount.draw(rng, n)), 1).astype(np.int64).tolist()
    return lengths


def pauses_s(amount: Amount, rng: np.random.Generator, n: int) -> list[float]:
    """`n` pauses in seconds, in whole microseconds so that they are the same on every machine."""
    pauses: list[float] = (np.round(amount.draw(rng, n) * 1e6) / 1e6).tolist()
    return pauses


def _written(*numbers: float) -> str:
    """The numbers in full, whole ones without a point."""
    return ",".join(str(n).removesuffix(".0") for n in numbers)


def _check(amount: Always | Uniform | LogNormal, holds: bool, wanted: str) -> None:
    numbers = [getattr(amount, part.name) for part in fields(amount)]
    if not holds or not all(abs(number) <= LARGEST for number in numbers):
        raise WorkloadError(f"{amount} needs {wanted}, and nothing above {LARGEST}")


def _not_an_amount(text: str) -> WorkloadError:
    return WorkloadError(
        f"{text!r} is no distribution: write 512, uniform:64,512 or lognormal:512,0.8"
    )
