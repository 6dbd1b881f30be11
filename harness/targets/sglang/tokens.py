"""Prompts and answers whose every token names its whole prefix.

A token is the hash of the tokens before it and of one symbol, so what a slot should hold for a
position is simply the token there: the fingerprint of a prefix is its last token.

Invariant: two sequences share a token at a position exactly when they share all tokens up to it.
"""

from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 31) - 1
_STEP = 0x9E3779B97F4A7C15


class Seed(NamedTuple):
    """Whose tokens these are: a group's prefix, a tail behind it, or an answer."""

    kind: int
    number: int


ANSWER = Seed(3, 0)


def grow(tokens: list[int], seed: Seed, count: int) -> list[int]:
    """`tokens` and `count` more of `seed`."""
    grown = list(tokens)
    last = grown[-1] if grown else 1
    for _ in range(count):
        last = _mix(last, seed.kind * 1009 + seed.number)
        grown.append(last)
    return grown


def _mix(last: int, symbol: int) -> int:
    value = (last * _STEP + (symbol + 1) * 0xBF58476D1CE4E5B9) & ((1 << 64) - 1)
    value = ((value ^ (value >> 31)) * 0x94D049BB133111EB) & ((1 << 64) - 1)
    return (value >> 29) & _MASK or 1


def named(symbols: NDArray[np.int32], namespace: str = "") -> NDArray[np.int64]:
    """As many tokens as `symbols`, each the hash of all symbols up to its own and the namespace;
    one in two billion of those that should differ does not."""
    count = len(symbols)
    start = int.from_bytes(blake2b(namespace.encode(), digest_size=8).digest())
    powers = np.cumprod(np.full(count, _STEP, dtype=np.uint64))
    mixed = (symbols.astype(np.uint64) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(31)
    sums = np.cumsum(mixed * powers) + np.uint64(start)
    sums = (sums ^ (sums >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    tokens = (sums >> np.uint64(33)).astype(np.int64)
    tokens[tokens == 0] = 1
    return tokens
