"""The values of one latency, of any number of requests, in bounded memory.

The first `EXACT_VALUES` are kept as they are, and their percentiles are numpy's linear ones. When
there are more, all go into a histogram of logarithmic buckets: percentiles are then within its
relative error, while mean and deviation stay those of the values themselves.
"""

from array import array
from typing import NamedTuple

import numpy as np

from harness.record.histogram import Histogram

EXACT_VALUES = 1 << 17  # a megabyte a column


class Statistics(NamedTuple):
    """In the unit of the values; of no value, all 0."""

    mean: float
    median: float
    std: float
    p90: float
    p99: float


class Column:
    """Values that are not negative; one that is by a clock's grain counts as 0."""

    __slots__ = ("_exact", "_exact_values", "_histogram")

    def __init__(self, exact_values: int = EXACT_VALUES) -> None:
        self._exact_values = exact_values
        self._exact = array("d")
        self._histogram: Histogram | None = None

    def add(self, value: float) -> None:
        if self._histogram is not None:
            self._histogram.add(max(0.0, value))
            return
        self._exact.append(value)
        if len(self._exact) > self._exact_values:
            self._histogram = Histogram()
            for known in self._exact:
                self._histogram.add(max(0.0, known))
            self._exact = array("d")

    @property
    def count(self) -> int:
        return len(self._exact) if self._histogram is None else self._histogram.count

    def statistics(self) -> Statistics:
        if self._histogram is not None:
            return statistics_of(self._histogram)
        if not self._exact:
            return Statistics(0.0, 0.0, 0.0, 0.0, 0.0)
        values = np.asarray(self._exact)
        median, p90, p99 = (float(value) for value in np.percentile(values, (50, 90, 99)))
        return Statistics(float(values.mean()), median, float(values.std()), p90, p99)


def statistics_of(histogram: Histogram) -> Statistics:
    percentile = histogram.percentile
    return Statistics(histogram.mean, percentile(50), histogram.std, percentile(90), percentile(99))
