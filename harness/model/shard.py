"""One rank's share of a model: some heads, and a slice of each MLP.

A layer is cut by heads: queries, keys, values and states of a head are computed, and kept, by one
rank. What leaves a layer is a sum over all heads, so each rank has a partial sum and the ranks add
them up. Invariant: partial sums are sums of whole numbers below the bounds of `exact`, so their
total is that of the model in one piece, bit by bit.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from cache.config import ConfigError
from cache.model import AttentionShape, ModelShape, RecurrentShape
from harness.model.weights import FULL, RECURRENT, Layer, Weights


class Sums(Protocol):
    """What the ranks of a model compute together. Each takes part in the same order."""

    @property
    def ranks(self) -> int: ...

    def total(self, part: Tensor) -> Tensor:
        """The sum of every rank's `part`, which is used up."""
        ...

    def greatest(self, part: Tensor) -> Tensor:
        """The greatest of every rank's `part`, element by element; `part` is used up."""
        ...


class _Alone:
    """A model in one piece."""

    ranks = 1

    def total(self, part: Tensor) -> Tensor:
        return part

    def greatest(self, part: Tensor) -> Tensor:
        return part


ALONE = _Alone()


class Shard(NamedTuple):
    """Rank `rank` of `ranks`."""

    rank: int = 0
    ranks: int = 1

    def part(self, shape: ModelShape) -> ModelShape:
        """The shape of what this rank computes. Raises `ConfigError` where a rank would have a part
        of a head."""
        if self.ranks == 1:
            return shape
        for what, count in _divided(shape):
            if count % self.ranks:
                raise ConfigError(
                    f"--tp {self.ranks} does not divide the {count} {what} of {shape.name}, which"
                    " --compute model deals out whole"
                )
        return replace(
            shape,
            query_heads=shape.query_heads // self.ranks,
            full=self._attention(shape.full),
            swa=None if shape.swa is None else self._attention(shape.swa),
            recurrent=None if shape.recurrent is None else self._recurrent(shape.recurrent),
            intermediate_size=shape.intermediate_size // self.ranks,
        )

    def weights(self, whole: Weights, shape: ModelShape) -> Weights:
        """This rank's part of the weights of the whole `shape`; embedding and positions are
        everybody's."""
        if self.ranks == 1:
            return whole
        return Weights(
            whole.embedding,
            tuple(self._layer(layer, shape) for layer in whole.layers),
            whole.rope,
        )

    def columns(self, whole: Tensor) -> Tensor:
        """This rank's share of the last dimension."""
        width = whole.shape[-1] // self.ranks
        return whole[..., self.rank * width : (self.rank + 1) * width]

    def _attention(self, kind: AttentionShape) -> AttentionShape:
        return replace(kind, kv_heads=kind.kv_heads // self.ranks)

    def _recurrent(self, kind: RecurrentShape) -> RecurrentShape:
        return replace(kind, heads=kind.heads // self.ranks, projected=kind.projected // self.ranks)

    def _layer(self, layer: Layer, shape: ModelShape) -> Layer:
        inner = shape.intermediate_size
        return replace(
            layer,
            qkv=self._rows(layer.qkv, _heights(layer.kind, shape)),
            out=self.columns(layer.out).contiguous(),
            up=self._rows(layer.up, (inner, inner)),
            down=self.columns(layer.down).contiguous(),
        )

    def _rows(self, matrix: Tensor, heights: Sequence[int]) -> Tensor:
        """This rank's share of each run of rows."""
        runs = torch.split(matrix, list(heights))
        return torch.cat([self.columns(run.T).T for run in runs])


WHOLE = Shard()


def _heights(kind: str, shape: ModelShape) -> tuple[int, ...]:
    """The runs of rows of a layer's first projection, each ordered by heads."""
    if kind == RECURRENT:
        recurrent = shape.recurrent
        assert recurrent is not None
        heads, key, value = recurrent.heads, recurrent.key_dim, recurrent.value_dim
        return heads * key, heads * key, heads * value, heads * value, heads, heads
    attention = shape.full if kind == FULL else shape.swa
    assert attention is not None
    dim = attention.key_dim
    return shape.query_heads * dim, attention.kv_heads * dim, attention.kv_heads * dim


def _divided(shape: ModelShape) -> list[tuple[str, int]]:
    """What is dealt out, and how many there are."""
    found = [
        ("query heads", shape.query_heads),
        ("KV heads", shape.full.kv_heads),
        ("MLP columns", shape.intermediate_size),
    ]
    if shape.swa is not None:
        found.append(("KV heads of sliding layers", shape.swa.kv_heads))
    if shape.recurrent is not None:
        found.append(("recurrent heads", shape.recurrent.heads))
    return found
