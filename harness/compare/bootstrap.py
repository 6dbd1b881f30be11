"""Bootstrap intervals for the ratio and the difference of one statistic of two runs.

Percentile intervals over circular moving blocks: requests that follow each other share a queue, and
intervals that took them for independent would be far too narrow. Blocks are as long as the square
root of the number of requests, in the order of their arrival. Paired requests are drawn together,
so that what both runs have in common (the same prompts at the same times) cancels out.
"""

from collections.abc import Callable, Sequence
from math import erfc, isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Statistics = Callable[[Values], Values]  # (resamples, requests, columns) -> (resamples, statistics)
CELLS = 4_000_000  # of one chunk: 32 MB
MOST_CELLS = 40_000_000  # of one run's resamples
FEWEST = 200  # resamples, however long the runs are


class Interval(NamedTuple):
    """Bounds of the ratio b / a and of the difference b - a; NaN where they do not exist. `chance`
    is how likely a difference so far from 0 is where there is none, by the resamples' spread."""

    ratio_low: float
    ratio_high: float
    difference_low: float
    difference_high: float
    chance: float


def resamples_for(requests: int, wanted: int) -> int:
    """How many resamples are drawn: fewer than wanted for very long runs, which need fewer."""
    return max(FEWEST, min(wanted, MOST_CELLS // max(requests, 1)))


def intervals(
    a: Values,
    b: Values,
    statistics: Statistics,
    *,
    paired: bool,
    resamples: int,
    confidence: float,
    chance: np.random.Generator,
) -> list[Interval]:
    """One interval for each statistic of rows in order of arrival; columns may be several.
    With `paired`, row i of `a` and of `b` are the same request."""
    assert a.ndim == b.ndim == 2
    assert not paired or len(a) == len(b)
    drawn_a, drawn_b = [], []
    for part in _parts(resamples, max(len(a), len(b))):
        chosen = blocks(len(a), part, chance)
        drawn_a.append(statistics(a[chosen]))
        drawn_b.append(statistics(b[chosen if paired else blocks(len(b), part, chance)]))
    middles = (statistics(b[None]) - statistics(a[None]))[0]
    return _bounds(np.concatenate(drawn_a), np.concatenate(drawn_b), middles, confidence)


def blocks(number: int, resamples: int, chance: np.random.Generator) -> NDArray[np.intp]:
    """Indices of `number` rows for each resample, in runs of neighbours that wrap around."""
    length = max(1, round(number**0.5))
    starts = chance.integers(0, number, size=(resamples, -(-number // length)))
    chosen = (starts[:, :, None] + np.arange(length)) % number
    return np.asarray(chosen.reshape(resamples, -1)[:, :number])


def percentiles(levels: Sequence[float]) -> Statistics:
    """Mean and percentiles (numpy's linear ones) of the first column."""

    def of(rows: Values) -> Values:
        values = rows[:, :, 0]
        found = np.percentile(values, levels, axis=1)
        return np.column_stack((values.mean(axis=1), *found))

    return of


def ratios(rows: Values) -> Values:
    """Sums of every column over the sum of the last one."""
    sums = rows.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[:, :-1] / sums[:, -1:])


def means(rows: Values) -> Values:
    """The mean of every column."""
    return np.asarray(rows.mean(axis=1))


def _parts(resamples: int, requests: int) -> list[int]:
    most = max(1, CELLS // max(requests, 1))
    return [min(most, resamples - start) for start in range(0, resamples, most)]


def _bounds(a: Values, b: Values, middles: Values, confidence: float) -> list[Interval]:
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2]) * 100
    with np.errstate(invalid="ignore", divide="ignore"):
        quotient = np.where(a == b, 1.0, b / a)
    low, high = np.percentile(b - a, tails, axis=0)
    below, above = np.percentile(quotient, tails, axis=0)
    spreads = (b - a).std(axis=0)
    return [
        Interval(float(below[i]), float(above[i]), float(low[i]), float(high[i]),
                 _chance(float(middles[i]), float(spreads[i])))
        for i in range(a.shape[1])
    ]  # fmt: skip


def holm(chances: Sequence[float]) -> list[float]:
    """Adjust chances so that among all of them the least is below a level by chance no more often
    than that level says (Holm's rule)."""
    order = sorted(range(len(chances)), key=lambda place: chances[place])
    adjusted, largest = [1.0] * len(chances), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, chances[place] * (len(chances) - rank)))
        adjusted[place] = largest
    return adjusted


def _chance(difference: float, spread: float) -> float:
    """Two-sided, of a normal distribution."""
    if spread <= 1e-12 * abs(difference):
        return 0.0 if difference else 1.0
    return erfc(abs(difference) / spread / 2**0.5) if isfinite(spread) else 1.0
