"""A sum over a page's bytes that tells damage, at the speed of memory.

The bytes are taken as 64-bit words, each multiplied with an odd weight of its own, and added up
modulo 2^64. Odd weights have inverses, so a change within one word is always seen; damage to
several words passes with a chance of about 2^-64, unless it lies in their top bits alone. CRC-32
takes several times as long, which on a fast disk is as long as the writing.
"""

import numpy as np
import numpy.typing as npt

WORD_BYTES = 8
_LEAST_WORDS = 1024
_FEW_WORDS = 16  # are summed faster one by one than by a call that sums many


class Checksum:
    """Weights for as long a page as was ever seen; the sums are the same on every machine."""

    def __init__(self) -> None:
        self._weights = _weights(_LEAST_WORDS)
        self._first = [int(weight) for weight in self._weights[: _FEW_WORDS + 1]]

    def of(self, data: bytes | memoryview) -> int:
        """64 bits. Pages of different length differ in their headers, not here."""
        words = len(data) // WORD_BYTES
        if words < _FEW_WORDS:
            return self._of_few(data)
        while words >= len(self._weights):
            self._weights = _weights(2 * len(self._weights))
        values = np.frombuffer(data, dtype="<u8", count=words)
        total = int(np.dot(values, self._weights[:words]))
        rest = int.from_bytes(data[words * WORD_BYTES :], "little")
        return (total + rest * int(self._weights[words])) % 2**64

    def _of_few(self, data: bytes | memoryview) -> int:
        total = 0
        for at, weight in zip(range(0, len(data), WORD_BYTES), self._first, strict=False):
            total += weight * int.from_bytes(data[at : at + WORD_BYTES], "little")
        return total % 2**64


def _weights(count: int) -> npt.NDArray[np.uint64]:
    """Odd, and without a pattern: splitmix64 of 1, 2, 3, ..."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    weights: npt.NDArray[np.uint64] = (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)
    return weights
