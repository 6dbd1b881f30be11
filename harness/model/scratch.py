"""The same model with pools of its own and nothing cached: what a prompt's logits are.

Invariant: nothing of the cache under test is read here but the tokens.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cache.config import MAMBA, SWA, CacheConfig, Component, Tier
from cache.keys import pages_of
from cache.model import KvDtype, ModelShape
from harness.model.network import Network
from harness.model.pieces import Piece
from harness.model.store import ModelStore, store_maker
from harness.model.weights import Weights

CHUNK_PAGES = 32


class Scratch:
    """Computes a sequence from its first token, in chunks of its own. `stores` and `pages` of the
    last one stay until the next: page n is in slot n, the state in slot 0."""

    def __init__(
        self, shape: ModelShape, weights: Weights, config: CacheConfig, dtype: KvDtype
    ) -> None:
        self._shape = shape
        self._weights = weights
        self._config = config
        self._dtype = dtype
        self._pages = 0
        self.stores: Mapping[Component, ModelStore] = {}

    def logits(self, tokens: NDArray[np.int32], wanted_from: int) -> Tensor:
        """[position, vocabulary] of the positions from `wanted_from` to the end, on the CPU."""
        size = self._config.page_size
        network = self._network(pages_of(len(tokens), size))
        found = []
        for start in range(0, len(tokens), CHUNK_PAGES * size):
            stop = min(len(tokens), start + CHUNK_PAGES * size)
            piece = self._piece(tokens[start:stop], start, wanted_from)
            found += network.forward([piece])
        return torch.cat(found).cpu()

    def _network(self, pages: int) -> Network:
        """Over pools with room for so many pages; they grow and never shrink."""
        if pages > self._pages:
            self._pages = max(pages, 2 * self._pages)
            device = str(self._weights.embedding.device)
            make = store_maker(self._shape, self._config, self._dtype, device=device)
            made = {
                component: make(Tier.DEVICE, component, 1 if component is MAMBA else self._pages)
                for component in self._config.components
            }
            self.stores = {c: store for c, store in made.items() if isinstance(store, ModelStore)}
        return Network(self._shape, self._weights, self._config, self.stores)

    def _piece(self, tokens: NDArray[np.int32], start: int, wanted_from: int) -> Piece:
        config, stop = self._config, start + len(tokens)
        pages = list(range(pages_of(stop, config.page_size)))
        return Piece(
            tokens=tokens,
            start=start,
            full=pages,
            swa=pages if SWA in config.components else [],
            swa_start=0,
            state=0 if MAMBA in config.components else None,
            kept=None,
            boundary=0,
            logits_from=max(wanted_from, start),
        )
