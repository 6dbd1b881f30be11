"""Tokens that are cheap to name and made only when somebody looks at them.

A prompt is a few `Span`s instead of thousands of integers: a span names a run of an endless token
stream, and token i of a stream is a pure function of (seed, i). So a production trace fits in
memory, and two prompts that name the same run hold the same tokens on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

DEFAULT_VOCAB_SIZE = 32000

_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class Span(NamedTuple):
    """Tokens `start` to `start + length` of the stream `seed` (an unsigned 64-bit integer)."""

    seed: int
    start: int
    length: int


def synthesize(
    spans: Sequence[Span], vocab_size: int = DEFAULT_VOCAB_SIZE
) -> npt.NDArray[np.int32]:
    """The tokens that `spans` name, joined: int32, each in [0, vocab_size).

    The same spans give the same bytes everywhere. Equal runs are equal whichever way they are cut
    into spans; tokens of different streams are equal only by chance (1 in `vocab_size`).
    """
    assert 2 <= vocab_size <= 1 << 31, f"vocab_size must be in [2, 2**31], got {vocab_size}"
    if not spans:
        return np.empty(0, np.int32)
    lengths = np.fromiter((span.length for span in spans), np.int64, len(spans))
    ends = np.cumsum(lengths)
    # One counter runs through all spans; each span's offset puts it at its own place of its stream.
    offsets = np.fromiter(
        (
            (span.seed + (span.start + 1 - begin) * _GAMMA) & _MASK
            for span, begin in zip(spans, (ends - lengths).tolist(), strict=True)
        ),
        np.uint64,
        len(spans),
    )
    state = np.arange(int(ends[-1]), dtype=np.uint64)
    state *= np.uint64(_GAMMA)
    state += np.repeat(offsets, lengths)
    _mix(state)
    state >>= np.uint64(32)
    state *= np.uint64(vocab_size)
    state >>= np.uint64(32)
    return state.astype(np.int32)


def stream_seed(*parts: int | str) -> int:
    """A 64-bit seed named by `parts`, the same in every process; (1, "a") and ("1", "a") differ."""
    digest = blake2b(digest_size=8)
    for part in parts:
        text = f"{'s' if isinstance(part, str) else 'i'}{part}".encode()
        digest.update(len(text).to_bytes(4, "little") + text)
    return int.from_bytes(digest.digest(), "little")


def numbered_seeds(base: int, numbers: Sequence[int]) -> list[int]:
    """A seed for each of `numbers` (each below 2**64); different numbers never share one."""
    state = np.array(numbers, np.uint64)
    state *= np.uint64(_GAMMA)
    state += np.uint64(base)
    _mix(state)
    seeds: list[int] = state.tolist()
    return seeds


def _mix(state: npt.NDArray[np.uint64]) -> None:
    """The finalizer of splitmix64, in place: a bijection of 64-bit words."""
    scratch = np.empty_like(state)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        np.right_shift(state, np.uint64(shift), out=scratch)
        np.bitwise_xor(state, scratch, out=state)
        np.multiply(state, np.uint64(factor), out=state)
    np.right_shift(state, np.uint64(31), out=scratch)
    np.bitwise_xor(state, scratch, out=state)
