"""From logits to the next token: what the trace says, the likeliest, or one that is drawn.

Invariant: a token follows from the logits, the seed, the request and the position, so the order in
which requests were batched decides nothing.
"""

import enum
from hashlib import blake2b

import numpy as np
from torch import Tensor

from harness.model.exact import SPREAD

TEMPERATURE = 0.7


class Decoding(enum.StrEnum):
    """TRACE answers what the traffic says, so that later turns repeat it; logits are computed all
    the same."""

    TRACE = "trace"
    GREEDY = "greedy"
    SAMPLED = "sampled"


class Sampler:
    """Of the tokens from `first` on; logits are in the order of tokens."""

    def __init__(self, decoding: Decoding, *, hidden: int, seed: int, first: int = 0) -> None:
        self.decoding = decoding
        self._seed = seed
        self._first = first
        self._unit = SPREAD * 4.0 * hidden**0.5 / 3.0

    def next(self, logits: Tensor, request: str, position: int) -> int:
        """The token at `position` of `request`."""
        assert self.decoding is not Decoding.TRACE
        choice = logits[self._first :]
        if self.decoding is Decoding.GREEDY:
            return self._first + int(choice.argmax())
        scaled = choice.double().cpu().numpy() / (self._unit * TEMPERATURE)
        named = blake2b(f"{self._seed}/{request}/{position}".encode(), digest_size=8).digest()
        chance = np.random.Generator(np.random.PCG64(int.from_bytes(named, "little")))
        return self._first + int((scaled + chance.gumbel(size=len(scaled))).argmax())
