"""Seeded chance for the search: splitmix64, small, fast enough, the same on every machine.

Invariant: the stream depends on the seed alone; streams of different labels are independent.
"""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


class SplitMix:
    """A stream of chance. ``seed`` is any whole number; only its low 64 bits matter."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def bits(self) -> int:
        """64 random bits."""
        self._state = z = (self._state + _GOLDEN) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        """A whole number of 0..bound-1; the bias is below bound / 2**64."""
        return (self.bits() * bound) >> 64

    def unit(self) -> float:
        """A number in [0, 1) with 53 random bits."""
        return (self.bits() >> 11) * 2.0**-53

    def choice(self, items: Sequence[T]) -> T:
        """One of ``items``, which must not be empty."""
        return items[self.below(len(items))]

    def weighted(self, weights: Sequence[float]) -> int:
        """An index, each with a chance in proportion to its weight; the sum must be above 0."""
        sums = list(accumulate(weights))
        mark = self.unit() * sums[-1]
        return next(index for index, total in enumerate(sums) if mark < total)

    def sample(self, bound: int, count: int) -> list[int]:
        """``count`` different numbers of 0..bound-1, ascending; all when there are not so many."""
        chosen = list(range(min(count, bound)))
        for high in range(count, bound):
            at = self.below(high + 1)
            if at < count:
                chosen[at] = high
        return sorted(chosen)


def derive(seed: int, *labels: object) -> int:
    """A 64-bit seed for a part of a run, from the run's seed and the part's name."""
    text = "/".join(str(label) for label in (seed, *labels))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
