"""The forward: embedding, layers over the real pools, logits.

Invariant: the logits of a position follow from the seed and the tokens up to it, bit by bit,
however the tokens before it came into the pools (see `exact`).
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from cache.config import CacheConfig, Component
from cache.model import ModelShape
from harness.model.batch import Batch, Group, make_batch
from harness.model.exact import (
    RESIDUAL,
    SPREAD,
    attended,
    normalise,
    product,
    project,
    scaled,
    shares,
    softly,
    whole,
)
from harness.model.paged import PagedKv
from harness.model.pieces import Piece
from harness.model.recurrence import Recurrence
from harness.model.shard import ALONE, Sums
from harness.model.store import ModelStore
from harness.model.weights import FULL, RECURRENT, Layer, Weights

_SHARPNESS = 1.5  # spread of scores in units of the softmax
# Called before a layer of pages is attended to; returns when what is read there has come.
Ready = Callable[[Component, int], object]


def at_once(component: Component, layer: int) -> None:
    """Everything has come before the forward began."""


class Network:
    """A model over the device stores of one cache; what `config` says of pages and window holds.

    Where ranks have dealt it out, `shape`, `weights` and `stores` are this rank's part, and `sums`
    are what it computes with the others: every rank computes the same forwards in one order."""

    def __init__(
        self,
        shape: ModelShape,
        weights: Weights,
        config: CacheConfig,
        stores: Mapping[Component, ModelStore],
        sums: Sums = ALONE,
    ) -> None:
        self._shape = shape
        self._weights = weights
        self._config = config
        self._stores = stores
        self._sums = sums
        self._device = str(weights.embedding.device)
        self._dim = shape.full.key_dim
        self._unit = SPREAD**2 * self._dim**0.5 / _SHARPNESS
        self._paged = {
            component: PagedKv(stores[component], kind.kv_heads, kind.key_dim, sums)
            for component, kind in ((Component.FULL, shape.full), (Component.SWA, shape.swa))
            if kind is not None
        }

    @torch.inference_mode()
    def forward(self, pieces: Sequence[Piece], ready: Ready = at_once) -> list[Tensor]:
        """Write K, V and states of the new tokens; logits of the wanted positions of each piece,
        [position, vocabulary], on the device."""
        batch = make_batch(pieces, self._config, self._device)
        recurrence = self._recurrence(pieces)
        residual = self._weights.embedding[batch.tokens]
        for layer in self._weights.layers:
            projected = project(normalise(residual), layer.qkv)
            if layer.kind == RECURRENT:
                assert recurrence is not None
                mixed = recurrence.run(layer.number, projected)
            else:
                mixed = self._attend(layer, projected, batch, ready)
            residual = self._add(residual, self._together(mixed, layer.out))
            residual = self._add(residual, self._mlp(layer, normalise(residual)))
        self._note(pieces)
        return self._logits(residual, batch)

    def _recurrence(self, pieces: Sequence[Piece]) -> Recurrence | None:
        if self._shape.recurrent is None:
            return None
        return Recurrence(self._stores[Component.MAMBA], self._shape.recurrent, pieces)

    def _attend(self, layer: Layer, projected: Tensor, batch: Batch, ready: Ready) -> Tensor:
        component = Component.FULL if layer.kind == FULL else Component.SWA
        kind = self._shape.full if layer.kind == FULL else self._shape.swa
        assert kind is not None
        heads, kv_heads, dim = self._shape.query_heads, kind.kv_heads, self._dim
        split = [heads * dim, kv_heads * dim, kv_heads * dim]
        queries, keys, values = torch.split(projected, split, dim=-1)
        queries = self._rotate(queries.reshape(-1, heads, dim), batch.positions)
        keys = self._rotate(keys.reshape(-1, kv_heads, dim), batch.positions)
        paged = self._paged[component]
        paged.put(layer.number, batch.places[component], keys, values.reshape(-1, kv_heads, dim))
        out = torch.empty_like(queries)
        ready(component, layer.number)
        for group in batch.groups[component]:
            self._attend_group(paged, layer.number, group, queries, out)
        return out.flatten(1)

    def _attend_group(
        self, paged: PagedKv, layer: int, group: Group, queries: Tensor, out: Tensor
    ) -> None:
        """Heads that share keys and values attend as so many queries more."""
        keys, values = paged.get(layer, group.pages, group.seen)
        requests, kv_heads, _, dim = keys.shape
        heads = queries.shape[1]
        asked = queries[group.rows].view(requests, -1, kv_heads, heads // kv_heads, dim)
        asked = asked.permute(0, 2, 3, 1, 4)
        together = asked.shape[2], asked.shape[3]
        scores = asked.flatten(2, 3) @ keys.transpose(-1, -2)
        hidden = group.hidden[:, None, None].expand(-1, 1, together[0], -1, -1).flatten(2, 3)
        scores.masked_fill_(hidden, -torch.inf)
        taken = attended(shares(scores, self._unit), values)
        shaped = taken.view(requests, kv_heads, *together, dim).permute(0, 3, 1, 2, 4)
        out[group.rows] = shaped.flatten(2, 3)

    def _rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """RoPE; [token, head, dim]."""
        cosines, sines = self._weights.rope[positions].unbind(1)
        first, second = x.chunk(2, dim=-1)
        cosines, sines = cosines[:, None], sines[:, None]
        left = first * cosines - second * sines
        right = second * cosines + first * sines
        return whole(torch.cat([left, right], dim=-1))

    def _mlp(self, layer: Layer, x: Tensor) -> Tensor:
        gate, up = project(x, layer.up).chunk(2, dim=-1)
        return self._together(whole(softly(gate).mul_(up).div_(SPREAD)), layer.down)

    def _together(self, x: Tensor, weight: Tensor) -> Tensor:
        """`project` of what all ranks have."""
        width = weight.shape[1] * self._sums.ranks
        return scaled(self._sums.total(product(x, weight)), width)

    def _add(self, residual: Tensor, more: Tensor) -> Tensor:
        return whole(residual + more, RESIDUAL)

    def _logits(self, residual: Tensor, batch: Batch) -> list[Tensor]:
        counts = [piece.stop - max(piece.start, piece.logits_from) for piece in batch.pieces]
        rows: list[int] = []
        for piece, first, count in zip(batch.pieces, batch.firsts, counts, strict=True):
            last = first + len(piece.tokens)
            rows += range(last - max(count, 0), last)
        if not rows:
            return [residual.new_zeros((0, self._shape.vocab_size)) for _ in counts]
        wanted = normalise(residual[torch.tensor(rows, device=residual.device)])
        logits = torch.nn.functional.linear(wanted, self._weights.embedding)
        return list(torch.split(logits, [max(count, 0) for count in counts]))

    def _note(self, pieces: Sequence[Piece]) -> None:
        """Tell the stores which slots hold something new."""
        size = self._config.page_size
        for piece in pieces:
            first = piece.start // size
            self._stores[Component.FULL].computed(piece.full[first:])
            if Component.SWA in self._stores:
                self._stores[Component.SWA].computed(piece.swa[first - piece.swa_start :])
            if piece.state is not None:
                kept = [] if piece.kept is None else [piece.kept]
                self._stores[Component.MAMBA].computed([piece.state, *kept])
