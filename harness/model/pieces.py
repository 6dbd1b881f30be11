"""What one forward computes: for every request some new tokens, and where its pages lie.

A piece is taken from a page table before the forward begins, so that the forward needs nothing of
the cache but its stores: it may run in a thread of its own. Invariant: a piece names slots that its
request may read, and writes none but the request's own.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cache.components import rules_for
from cache.config import MAMBA, SWA
from cache.keys import TOKEN_BYTES, namespace_seed, pages_of
from cache.table import PageTable
from cache.unified import UnifiedCache


class Piece(NamedTuple):
    """`tokens` go to positions from `start` on. `swa` are the slots of pages from `swa_start` on.
    `kept` is where the state behind `boundary` tokens goes, if one lies in the piece. Logits are
    wanted of positions from `logits_from` on."""

    tokens: NDArray[np.int32]
    start: int
    full: list[int]
    swa: list[int]
    swa_start: int
    state: int | None
    kept: int | None
    boundary: int
    logits_from: int

    @property
    def stop(self) -> int:
        return self.start + len(self.tokens)


def piece_of(cache: UnifiedCache, table: PageTable, tokens: NDArray[np.int32], start: int) -> Piece:
    """`tokens` at positions from `start` on. `start` may be ahead of `table.written`: a decoding
    request's counters are brought up to date now and then."""
    config = cache.config
    size = config.page_size
    stop = start + len(tokens)
    pages = table.full[: pages_of(stop, size)]
    swa_start, swa = len(pages), []
    if SWA in config.components:
        swa_start = rules_for(config)[SWA].needed_from(start) // size
        swa = cache.residency.map.lookup(pages[swa_start:])
    state = table.state if MAMBA in config.components else None
    boundary = stop // size * size
    keeps = state is not None and table.kept is not None and boundary > start
    return Piece(
        tokens=tokens,
        start=start,
        full=list(pages),
        swa=swa,
        swa_start=swa_start,
        state=state,
        kept=table.kept if keeps else None,
        boundary=boundary if keeps else 0,
        logits_from=stop - 1,
    )


class Vocabulary:
    """From a request's tokens to rows of the embedding. A namespace stands for an adapter: its
    tokens are embedded as others, so its K and V are nobody else's."""

    def __init__(self, size: int) -> None:
        self._size = size

    def rows(self, data: bytes, start: int, stop: int, namespace: str) -> NDArray[np.int32]:
        """Of tokens [start, stop) of a key's data."""
        found = np.frombuffer(data, dtype="<i4", count=stop - start, offset=start * TOKEN_BYTES)
        rows = (found.astype(np.int64) + self._shift(namespace)) % self._size
        return rows.astype(np.int32)

    def by_token(self, logits: Tensor, namespace: str) -> Tensor:
        """From the order of rows to that of tokens."""
        return logits.roll(-self._shift(namespace), -1)

    def _shift(self, namespace: str) -> int:
        if not namespace:
            return 0
        return 1 + namespace_seed(namespace) % (self._size - 1)
