"""Keys and values in pages: rounded to the cache's data type on their way in, gathered by page
table on their way out.

Every page of a layer has a scale for K and one for V, which ride in the page. They are powers of
two set by the page's first token, so they do not depend on how a prompt was cut into chunks: a page
that is computed anew has the bytes of the one that was cached. Ranks that hold some
heads each take the scale that all heads need: their pages are slices of those of the whole model.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from harness.model.shard import Sums
from harness.model.store import TORCH_DTYPES, ModelStore

HEADROOM = 4.0  # largest element of a page that its first token foretells; beyond it is clamped
LEAST = 28.0  # a first token of small numbers says little about those that follow


class Places(NamedTuple):
    """Where new tokens go in one component: token by token their slot and row; `opening` are the
    indices of those that are the first of their page."""

    slots: Tensor
    rows: Tensor
    opening: Tensor


class PagedKv:
    """The attention layers of one component's device store."""

    def __init__(self, store: ModelStore, kv_heads: int, dim: int, sums: Sums) -> None:
        self._store = store
        self._sums = sums
        self._kv_heads = kv_heads
        self._dim = dim
        self._dtype = TORCH_DTYPES[store.shape.dtype]
        self._most = float(torch.finfo(self._dtype).max)
        self._scaled = store.shape.dtype.size_bytes == 1

    def put(self, layer: int, places: Places, keys: Tensor, values: Tensor) -> None:
        """K and V of new tokens, [token, head, dim] each."""
        scales = self._store.scales(layer)
        slots, rows, opening = places
        both = torch.stack([keys, values]).flatten(2)  # K or V, token, elements
        if opening.numel():
            scales[slots[opening]] = self._scales(both[:, opening]).T
        scaled = both / scales[slots].T[..., None]
        rounded = scaled.clamp_(-self._most, self._most).to(self._dtype).view(torch.uint8)
        self._store.keys(layer)[slots, rows] = rounded[0]
        self._store.values(layer)[slots, rows] = rounded[1]

    def get(self, layer: int, slots: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """K and V of whole pages: [request, page] slots to [request, head, token, dim]. Tokens
        that are not `seen` ([request, token]) come as zeros, whatever lies there."""
        scales = self._store.scales(layer)[slots]  # request, page, K or V
        halves = (self._store.keys(layer), self._store.values(layer))
        found = []
        for half, data in enumerate(halves):
            raw = data[slots].view(self._dtype).float()
            if self._scaled:
                raw.mul_(scales[..., half, None, None])
            whole = raw.view(slots.shape[0], -1, self._kv_heads, self._dim).transpose(1, 2)
            found.append(whole.masked_fill_(~seen[:, None, :, None], 0.0))
        return found[0], found[1]

    def _scales(self, both: Tensor) -> Tensor:
        """Powers of two, [K or V, token]; 1 where the data type needs none."""
        if not self._scaled:
            return torch.ones(both.shape[:2], device=both.device)
        largest = self._sums.greatest(both.abs().amax(-1))
        largest = largest.clamp_(min=LEAST).mul_(HEADROOM).div_(self._most)
        _, exponents = torch.frexp(largest)
        return torch.ldexp(torch.ones_like(largest), exponents)
