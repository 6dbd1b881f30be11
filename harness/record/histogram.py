"""A histogram of durations in bounded memory.

Each power of two is cut into 128 equal buckets, so a reported value is within 1/256 (0.4 %) of a
recorded one whatever their number. Bucket bounds are exact binary fractions: the same values give
the same histogram on every machine, and two histograms merge by adding counts.
"""

from array import array
from math import frexp, inf, ldexp, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

BUCKETS_PER_OCTAVE = 128
SMALLEST_EXPONENT = -30  # 2**-31 s is half a nanosecond: below it a duration counts as zero
LARGEST_EXPONENT = 30  # 2**30 s is 34 years: longer ones are counted as that
RELATIVE_ERROR = 1 / (2 * BUCKETS_PER_OCTAVE)
_SIZE = 1 + (LARGEST_EXPONENT - SMALLEST_EXPONENT + 1) * BUCKETS_PER_OCTAVE


class Histogram:
    """Weighted counts of values from 2**-31 to 2**30 in whatever unit the caller uses."""

    __slots__ = ("_counts", "_mean", "_squares", "count", "largest", "smallest")

    def __init__(self) -> None:
        self._counts = array("q", bytes(8 * _SIZE))
        self._mean = 0.0
        self._squares = 0.0
        self.count = 0
        self.smallest = 0.0
        self.largest = 0.0

    def add(self, value: float, count: int = 1) -> None:
        """Record `value` (finite, not negative) `count` times."""
        assert 0 <= value < inf, f"{value} is not a duration"
        assert count >= 0, f"cannot record {value} {count} times"
        if not count:
            return
        self._counts[_bucket(value)] += count
        if self.count:
            self.smallest = min(self.smallest, value)
            self.largest = max(self.largest, value)
        else:
            self.smallest = self.largest = value
        self._fold(count, value, 0.0)

    def merge(self, other: "Histogram") -> None:
        """Add everything recorded in `other`; `other` stays as it is."""
        if not other.count:
            return
        if self.count:
            self.smallest = min(self.smallest, other.smallest)
            self.largest = max(self.largest, other.largest)
        else:
            self.smallest, self.largest = other.smallest, other.largest
        total = np.asarray(self._counts) + np.asarray(other._counts)
        self._counts = array("q", total.tobytes())
        self._fold(other.count, other._mean, other._squares)

    def packed(self) -> list[Any]:
        """Everything recorded, as lists and numbers; short where few buckets are in use."""
        counts = np.asarray(self._counts)
        used = np.flatnonzero(counts)
        inner = [self.count, self._mean, self._squares, self.smallest, self.largest]
        return [used.tolist(), counts[used].tolist(), *inner]

    @classmethod
    def unpacked(cls, packed: list[Any]) -> "Histogram":
        """The histogram that `packed` was made of."""
        used, counts, *inner = packed
        histogram = cls()
        for bucket, count in zip(used, counts, strict=True):
            histogram._counts[bucket] = count
        histogram.count, histogram._mean, histogram._squares = inner[:3]
        histogram.smallest, histogram.largest = inner[3:]
        assert sum(counts) == histogram.count
        return histogram

    @property
    def mean(self) -> float:
        """The mean of the recorded values themselves, not of their buckets; 0 when empty."""
        return self._mean

    @property
    def std(self) -> float:
        """The population standard deviation of the recorded values; 0 when empty."""
        return sqrt(self._squares / self.count) if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return the linear percentile within `RELATIVE_ERROR` of numpy's; 0 when empty."""
        assert 0 <= percent <= 100
        if not self.count:
            return 0.0
        counts: NDArray[np.int64] = np.asarray(self._counts)
        upto = np.cumsum(counts)
        rank = (self.count - 1) * percent / 100
        low, high = (
            self._value(int(np.searchsorted(upto, whole, side="right")))
            for whole in (int(rank), min(int(rank) + 1, self.count - 1))
        )
        return low + (high - low) * (rank - int(rank))

    def _value(self, bucket: int) -> float:
        return min(max(_middle(bucket), self.smallest), self.largest)

    def _fold(self, count: int, mean: float, squares: float) -> None:
        """Join a group of known size, mean and squared distances to what is here (Chan's rule)."""
        total = self.count + count
        distance = mean - self._mean
        self._mean += distance * (count / total)
        self._squares += squares + distance * distance * (self.count * (count / total))
        self.count = total


def _bucket(value: float) -> int:
    mantissa, exponent = frexp(value)
    if exponent < SMALLEST_EXPONENT or mantissa == 0.0:
        return 0
    if exponent > LARGEST_EXPONENT:
        return _SIZE - 1
    step = int((mantissa - 0.5) * (2 * BUCKETS_PER_OCTAVE))
    return 1 + (exponent - SMALLEST_EXPONENT) * BUCKETS_PER_OCTAVE + step


def _middle(bucket: int) -> float:
    if bucket == 0:
        return 0.0
    octave, step = divmod(bucket - 1, BUCKETS_PER_OCTAVE)
    return ldexp(0.5 + (step + 0.5) / (2 * BUCKETS_PER_OCTAVE), octave + SMALLEST_EXPONENT)
