"""Gated linear recurrence: a state of fixed size for each head, in place of keys and values.

    at the first token of a block:   S <- round(decay(token) S)
    at every token:                  S <- S + key value^T
                                     out <- query S

Decaying once a block keeps sums inside a block exact, so a chunk is a few matrix products for each
block, wherever it was cut: a block is `BLOCK` tokens at a multiple of `BLOCK`.

With keys below 16, values below 64 and decays of at most 7/8, a state's elements stay below
15 x 63 x BLOCK x 8 < 2^18 and are whole in float32; sums over them are in float64.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cache.model import RecurrentShape
from harness.model.exact import SPREAD, softly, whole
from harness.model.pieces import Piece
from harness.model.store import ModelStore

BLOCK = 32
KEY, VALUE = 15, 63
_NORM_SHIFT = 2.0**-6
_EIGHTHS = 8.0


class Recurrence:
    """One forward over the states of one device store; `pieces` go on from their own states."""

    def __init__(self, store: ModelStore, shape: RecurrentShape, pieces: Sequence[Piece]) -> None:
        self._store = store
        self._shape = shape
        self._device = store.bytes.device
        self._pieces = pieces
        offsets = [piece.start % BLOCK for piece in pieces]
        ends = [offset + len(p.tokens) for offset, p in zip(offsets, pieces, strict=True)]
        self._blocks = -(-max(ends) // BLOCK)
        # where each new token stands in a grid of [request, block x BLOCK]
        width = self._blocks * BLOCK
        grid = [
            request * width + offset + np.arange(len(piece.tokens))
            for request, (piece, offset) in enumerate(zip(pieces, offsets, strict=True))
        ]
        self._grid = torch.from_numpy(np.concatenate(grid)).to(self._device)
        own = [piece.state for piece in pieces]
        assert None not in own
        self._slots = torch.tensor(own, device=self._device)
        self._begun = torch.tensor([float(p.start > 0) for p in pieces], device=self._device)
        # a block whose first token is new begins by decaying what there is
        heads = [[p.start - o + n * BLOCK for n in range(self._blocks)]
                 for p, o in zip(pieces, offsets, strict=True)]  # fmt: skip
        opens = [[piece.start <= head < piece.stop and head > 0 for head in row]
                 for piece, row in zip(pieces, heads, strict=True)]  # fmt: skip
        self._opens = torch.tensor(opens, device=self._device)
        # for each block, which requests pass a boundary to keep in it, and after how many tokens
        self._kept: dict[int, list[tuple[int, int]]] = {}
        for request, (piece, offset) in enumerate(zip(pieces, offsets, strict=True)):
            if piece.kept is not None:
                block, inside = divmod(piece.boundary - 1 - piece.start + offset, BLOCK)
                self._kept.setdefault(block, []).append((request, inside + 1))

    def run(self, layer: int, projected: Tensor) -> Tensor:
        """The layer's heads for all new tokens, [token, heads x value_dim]; states are updated."""
        shape = self._shape
        heads, key, value = shape.heads, shape.key_dim, shape.value_dim
        split = [heads * key, heads * key, heads * value, heads * value, heads, heads]
        queries, keys, values, gates, inputs, decays = torch.split(projected, split, dim=-1)
        open_ = inputs.div(2 * SPREAD).add_(0.5).clamp_(0.0, 1.0)[..., None]
        q = self._lay(whole(queries / 4, KEY), key)
        k = self._lay(whole(keys.reshape(-1, heads, key) * open_ / 4, KEY).flatten(1), key)
        v = self._lay(whole(values / 1.0, VALUE), value)
        # eighths from 3/8 to 7/8
        decay = self._lay(whole(decays / 12 + 5, 7).clamp_(min=3.0), 1)[:, :, :, :1, 0]
        out = self._scan(layer, q, k, v, decay.div(_EIGHTHS))
        out = out.reshape(-1, heads, value)[self._grid]
        out = whole(out.mul_(_NORM_SHIFT), 2**15).double()
        mean = out.square().sum(-1, keepdim=True).div_(value).clamp_(min=1.0)
        normal = whole(out.mul_(SPREAD).div_(mean.sqrt_())).flatten(1)
        return whole(normal.mul_(softly(gates)).div_(SPREAD))

    def _lay(self, flat: Tensor, dim: int) -> Tensor:
        """[token, heads x dim] as [request, block, head, token of the block, dim], float64, with
        zeros where there is no new token."""
        heads = self._shape.heads
        grid = torch.zeros(
            (len(self._pieces) * self._blocks * BLOCK, heads, dim),
            dtype=torch.float64,
            device=self._device,
        )
        grid[self._grid] = flat.view(-1, heads, dim).double()
        shaped = grid.view(len(self._pieces), self._blocks, BLOCK, heads, dim)
        return shaped.transpose(2, 3)

    def _scan(self, layer: int, q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
        """Block by block; out is [request, block, token, head, dim]."""
        state = self._load(layer)
        causal = torch.ones(BLOCK, BLOCK, dtype=torch.float64, device=self._device).tril_()
        inside = (q @ k.transpose(-1, -2)).mul_(causal) @ v
        added = k.transpose(-1, -2) @ v
        out = torch.empty_like(inside)
        for block in range(self._blocks):
            opens = self._opens[:, block, None, None, None]
            decayed = (state * decay[:, block, :, :, None]).round_()
            state = torch.where(opens, decayed, state)
            for request, count in self._kept.get(block, ()):
                self._keep(layer, request, state, (k, v), block, count)
            out[:, block] = q[:, block] @ state + inside[:, block]
            state = state + added[:, block]
        self._save(layer, self._slots, state)
        return out.transpose(2, 3)

    def _keep(
        self, layer: int, request: int, state: Tensor, kv: tuple[Tensor, Tensor], block: int, n: int
    ) -> None:
        k, v = (part[request, block, :, :n] for part in kv)
        kept = state[request] + k.transpose(-1, -2) @ v
        slot = self._pieces[request].kept
        self._save(layer, torch.tensor([slot], device=self._device), kept[None])

    def _load(self, layer: int) -> Tensor:
        first, second = self._store.states(layer)
        flat = torch.cat([first[self._slots], second[self._slots]], dim=-1)
        # A request that begins has whatever its slot held: nothing of it, NaN included, is read.
        flat = torch.where(self._begun[:, None] > 0, flat, torch.zeros_like(flat)).double()
        shape = self._shape
        return flat.view(-1, shape.heads, shape.key_dim, shape.value_dim)

    def _save(self, layer: int, slots: Tensor, state: Tensor) -> None:
        first, second = self._store.states(layer)
        flat = state.flatten(1).float()
        half = flat.shape[1] // 2
        first[slots], second[slots] = flat[:, :half], flat[:, half:]
