"""Whether values gather around two places instead of one.

Silverman's test: the critical bandwidth is the least at which a Gaussian kernel estimate has one
peak; it is too large for one peak if hardly any sample drawn from that very estimate needs as much.
It is asked of the logarithms, for latencies are skewed, without the outermost hundredths; and each
place must hold a tenth of the values, so that a few stragglers are no second place.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
MOST_VALUES = 200
FEWEST_VALUES = 30
RESAMPLES = 199
LEVEL = 0.01
LEAST_SHARE = 0.1
GRID = 128
SEED = 20260101  # the same values get the same answer in every comparison


class Modes(NamedTuple):
    """Two places: `share` of the values are around `low`, the others around `high`."""

    low: float
    high: float
    share: float
    chance: float  # of such a critical bandwidth with a single peak


def two_modes(values: Values) -> Modes | None:
    """The two places that the positive ones of the values gather around; None where one place
    cannot be ruled out."""
    values = np.sort(values[values > 0])
    if len(values) < FEWEST_VALUES:
        return None
    kept = np.log(values[len(values) // 100 : len(values) - len(values) // 100])
    logs = kept[np.unique(np.linspace(0, len(kept) - 1, MOST_VALUES).astype(int))]
    spread = float(logs.std())
    if spread < 1e-9:
        return None
    width = _critical(logs, spread)
    valley = _valley(logs, width * 0.97)
    share = float((np.log(values) <= valley).mean())
    if not LEAST_SHARE <= share <= 1 - LEAST_SHARE:
        return None
    chance = _chance(logs, spread, width)
    if chance > LEVEL:
        return None
    low, high = values[np.log(values) <= valley], values[np.log(values) > valley]
    return Modes(float(np.median(low)), float(np.median(high)), share, chance)


def _critical(logs: Values, spread: float) -> float:
    """The least bandwidth with a single peak, within a thousandth."""
    low, high = spread * 1e-3, spread * 3
    while high > low * 1.001:
        middle = (low * high) ** 0.5
        if _peaks(_densities(logs[None, :], middle)[1])[0] > 1:
            low = middle
        else:
            high = middle
    return high


def _chance(logs: Values, spread: float, width: float) -> float:
    """How often a sample of the estimate with one peak has more than one peak itself; its spread is
    brought back to that of the values."""
    chance = np.random.default_rng(SEED)
    drawn = logs[chance.integers(0, len(logs), size=(RESAMPLES, len(logs)))]
    noise = width * chance.standard_normal(drawn.shape)
    middle = logs.mean()
    drawn = middle + (drawn - middle + noise) / np.sqrt(1 + (width / spread) ** 2)
    more = sum(int(_peaks(_densities(row[None, :], width)[1])[0] > 1) for row in drawn)
    return (more + 1) / (RESAMPLES + 1)


def _valley(logs: Values, width: float) -> float:
    """The lowest place between the two highest peaks of the estimate just below the critical
    bandwidth."""
    grid, density = _densities(logs[None, :], width)
    line = density[0]
    inner = np.flatnonzero((line[1:-1] > line[:-2]) & (line[1:-1] >= line[2:])) + 1
    if len(inner) < 2:
        return float("inf")
    first, second = sorted(inner[np.argsort(line[inner])[-2:]])
    return float(grid[first + int(np.argmin(line[first : second + 1]))])


def _densities(samples: Values, width: float) -> tuple[Values, Values]:
    """A grid over all samples, and the estimate of each sample on it, not normed."""
    low, high = float(samples.min()) - 3 * width, float(samples.max()) + 3 * width
    grid = np.linspace(low, high, GRID)
    apart = (grid[None, :, None] - samples[:, None, :]) / width
    return grid, np.exp(-0.5 * apart**2).sum(axis=2)


def _peaks(densities: Values) -> NDArray[np.int64]:
    rising = np.diff(densities, axis=1) > 0
    return np.asarray((rising[:, :-1] & ~rising[:, 1:]).sum(axis=1))
