"""Random weights from a seed, and in which order the layers stand.

Invariant: a seed and a shape give the same weights on every machine and every device.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cache.config import Component, ConfigError
from cache.model import AttentionShape, ModelShape
from harness.model.exact import WEIGHT

FULL, SLIDING, RECURRENT = "F", "S", "R"
COMPONENTS = {FULL: Component.FULL, SLIDING: Component.SWA, RECURRENT: Component.MAMBA}
ROPE_BASE = 10_000.0


def pattern(shape: ModelShape) -> str:
    """The kinds of the layers in order, one letter each: every kind is spread evenly, and where two
    are due at once the rarer one comes last."""
    counts = {
        RECURRENT: shape.recurrent.layers if shape.recurrent else 0,
        SLIDING: shape.swa.layers if shape.swa else 0,
        FULL: shape.full.layers,
    }
    places = [
        ((number + 1) / count, -count, kind)
        for kind, count in counts.items()
        for number in range(count)
    ]
    return "".join(kind for _, _, kind in sorted(places))


def layers_in_order(shape: ModelShape) -> list[tuple[Component, int]]:
    """The layers as the stores know them: the component, and which layer there."""
    numbers = dict.fromkeys(COMPONENTS.values(), 0)
    found = []
    for kind in pattern(shape):
        component = COMPONENTS[kind]
        found.append((component, numbers[component]))
        numbers[component] += 1
    return found


@dataclass(frozen=True, slots=True)
class Layer:
    """`number` counts the layers of its kind: the layer of the stores. Matrices are [out, in]."""

    kind: str
    number: int
    qkv: Tensor
    out: Tensor
    up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class Weights:
    """Everything that a forward multiplies with, on one device."""

    embedding: Tensor  # [vocabulary, hidden], tied
    layers: tuple[Layer, ...]
    rope: Tensor  # [position, 2, dim / 2]: cosines and sines

    @property
    def num_bytes(self) -> int:
        tensors = [self.embedding, self.rope]
        for layer in self.layers:
            tensors += [layer.qkv, layer.out, layer.up, layer.down]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def check_shape(shape: ModelShape) -> None:
    """Raises `ConfigError` for what this model cannot be."""
    for kind in (shape.full, shape.swa):
        if kind is not None and (kind.key_dim != kind.value_dim or kind.key_dim % 2):
            raise ConfigError(f"--compute model needs even head dimensions, alike for K and V:"
                              f" {shape.name} has others")  # fmt: skip
    if shape.swa is not None and shape.swa.key_dim != shape.full.key_dim:
        raise ConfigError("--compute model needs one head dimension for full and sliding layers")
    if shape.experts:
        raise ConfigError(f"--compute model has no experts: {shape.name} does, use tiny-hybrid")
    if shape.recurrent is not None and shape.recurrent.conv_channels:
        raise ConfigError(f"--compute model has no convolutions: {shape.name} does")


def make_weights(shape: ModelShape, seed: int, device: str) -> Weights:
    """Raises `ConfigError` where the shape is not one of this model's."""
    check_shape(shape)
    chance = np.random.Generator(np.random.PCG64(seed))

    def matrix(rows: int, columns: int) -> Tensor:
        drawn = chance.integers(-WEIGHT, WEIGHT, size=(rows, columns), dtype=np.int8, endpoint=True)
        return torch.from_numpy(drawn).to(device=device, dtype=torch.float32)

    hidden, inner = shape.hidden_size, shape.intermediate_size
    seen: dict[str, int] = {}
    layers = []
    for kind in pattern(shape):
        wide, back = _widths(shape, kind)
        number = seen.get(kind, 0)
        seen[kind] = number + 1
        layers.append(
            Layer(
                kind,
                number,
                qkv=matrix(wide, hidden),
                out=matrix(hidden, back),
                up=matrix(2 * inner, hidden),
                down=matrix(hidden, inner),
            )
        )
    return Weights(matrix(shape.vocab_size, hidden), tuple(layers), _rope(shape, device))


def _widths(shape: ModelShape, kind: str) -> tuple[int, int]:
    """Outputs of a layer's first projection, inputs of its last."""
    if kind == RECURRENT:
        assert shape.recurrent is not None
        heads, key, value = (
            shape.recurrent.heads,
            shape.recurrent.key_dim,
            shape.recurrent.value_dim,
        )
        # queries, keys, values, an output gate; an input gate and a decay for each head
        return heads * (2 * key + 2 * value + 2), heads * value
    attention: AttentionShape | None = shape.full if kind == FULL else shape.swa
    assert attention is not None
    queries = shape.query_heads * attention.key_dim
    return queries + 2 * attention.kv_heads * attention.key_dim, queries


def _rope(shape: ModelShape, device: str) -> Tensor:
    """In steps of 1/1024, so that the last bit of a machine's cosine decides nothing."""
    half = shape.full.key_dim // 2
    turns = ROPE_BASE ** -(np.arange(half) / half)
    angles = np.arange(shape.max_context)[:, None] * turns
    table = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    steps = np.round(table * 1024) / 1024
    return torch.from_numpy(steps).to(device=device, dtype=torch.float32)
