"""Pools of real bytes, in the memory layouts that servers use.

A block is one layer's part of a page: K, V, and a trailer of 16 bytes that holds the page's
fingerprint and the scales of K and V. Whatever moves a block moves what it is and how to read it,
so a page that was torn, mixed up or never written tells so when it is read.

    layer_first         [layer][slot] block                       attention reads a layer at a time
    page_first_direct   [slot][layer] block                       a page is one run of bytes
    page_first          [slot] ([token][layer] K V)([layer] trailer)   and token by token

Invariant: a store's bytes never move; `slots` index them along one dimension of every layout.
"""

from typing import NamedTuple

import numpy as np
import torch

from cache.kernels import Mover
from cache.kernels.direct import DIRECT
from cache.keys import UNWRITTEN
from cache.layout import Layout
from cache.model import KvDtype
from cache.pinned import pin

TRAILER_BYTES = 16
WORD_BYTES = 8
TORN = -1  # read from a page whose layers disagree: no fingerprint is negative
_MIX = 0x9E3779B97F4A7C15  # golden ratio: layers of one page hold different words


class PageShape(NamedTuple):
    """One component's page on one rank. `width` is KV heads x head dimension, of K and of V."""

    layers: int
    tokens: int
    width: int
    dtype: KvDtype

    @property
    def row_bytes(self) -> int:
        """K, or V, of one token in one layer."""
        return self.width * self.dtype.size_bytes

    @property
    def half_bytes(self) -> int:
        """K, or V, of one layer."""
        return self.tokens * self.row_bytes

    @property
    def block_bytes(self) -> int:
        return 2 * self.half_bytes + TRAILER_BYTES

    @property
    def page_bytes(self) -> int:
        return self.layers * self.block_bytes


class TensorStore:
    """Slots of pages in one tensor. A `Store`: what is read are the fingerprints that ride in the
    trailers, TORN where a page's layers do not agree.

    Memory for `capacity` pages is taken at once, on `device`; `pinned` for host memory that a GPU
    copies from and to. Raises `torch.OutOfMemoryError` or `RuntimeError` where it cannot be had;
    `harness.device.memory` makes a result of it. `mover` moves what `take` asks for."""

    def __init__(
        self,
        shape: PageShape,
        capacity: int,
        layout: Layout,
        device: str = "cpu",
        *,
        pinned: bool = False,
        mover: Mover = DIRECT,
    ) -> None:
        assert shape.row_bytes % WORD_BYTES == 0, "K and V of a token are whole words"
        self.shape = shape
        self.capacity = capacity
        self.layout = layout
        self._mover = mover
        blocks = {
            Layout.LAYER_FIRST: (shape.layers, capacity, shape.block_bytes),
            Layout.PAGE_FIRST_DIRECT: (capacity, shape.layers, shape.block_bytes),
            Layout.PAGE_FIRST: (capacity, shape.page_bytes),
        }
        self.bytes = torch.zeros(blocks[layout], dtype=torch.uint8, device=device)
        if pinned:
            pin(self.bytes)

    # -- a Store ---------------------------------------------------------------------------------

    def write(self, slots: list[int], prints: list[int]) -> None:
        """Pages that stand for these prefixes: K and V are words made of fingerprint and layer."""
        assert len(slots) == len(prints)
        if not slots:
            return
        words = _signed(prints).to(self.bytes.device)
        for layer in range(self.shape.layers):
            kv = self._kv(layer)
            kv[slots] = (words ^ _mixed(layer)).reshape(-1, *[1] * (kv.dim() - 1))
        self.stamp(slots, prints)
        self.trailers()[:, slots, 1] = _ONE_AND_ONE

    def read(self, slots: list[int]) -> list[int]:
        """The fingerprint that every layer of each page agrees on."""
        if not slots:
            return []
        found = self.trailers()[:, slots, 0]
        agreed = (found == found[0]).all(dim=0)
        prints = found[0].cpu().numpy().view(np.uint64)
        return [int(p) if ok else TORN for p, ok in zip(prints, agreed.tolist(), strict=True)]

    def forget(self, slots: list[int]) -> None:
        if slots:
            self.trailers()[:, slots, 0] = UNWRITTEN

    def take(self, other: "TensorStore", source: list[int], target: list[int]) -> None:
        """Copy pages of `other`, whatever its layout, into slots of this store."""
        self.take_layers(other, source, target, range(self.shape.layers))

    def take_layers(
        self, other: "TensorStore", source: list[int], target: list[int], layers: range
    ) -> None:
        """`take` of some layers. A page is whole, and reads as it, once all of them have come."""
        assert self.shape == other.shape
        assert len(source) == len(target)
        assert 0 <= layers.start <= layers.stop <= self.shape.layers
        if target:
            self._mover.move(self, target, other, source, layers)

    # -- to storage and back -----------------------------------------------------------------------

    @property
    def body_bytes(self) -> int:
        return self.shape.page_bytes

    def bodies(self, slots: list[int]) -> list[memoryview]:
        """Layer after layer, each a block with its trailer, as page_first_direct has them."""
        if not slots:
            return []
        held = TensorStore(self.shape, len(slots), Layout.PAGE_FIRST_DIRECT)
        DIRECT.move(held, list(range(len(slots))), self, slots, range(self.shape.layers))
        return [memoryview(page) for page in held.bytes.flatten(1).numpy()]

    def restore(self, slot: int, print_: int, body: memoryview) -> None:
        held = TensorStore(self.shape, 1, Layout.PAGE_FIRST_DIRECT)
        if len(body) != self.body_bytes:
            DIRECT.move(held, [0], self, [slot], range(self.shape.layers))
        page = held.bytes.view(-1).numpy()
        taken = min(len(body), len(page))
        page[:taken] = np.frombuffer(body, dtype=np.uint8, count=taken)
        DIRECT.move(self, [slot], held, [0], range(self.shape.layers))

    # -- for a compute that fills pages itself, and for tests --------------------------------------

    def stamp(self, slots: list[int], prints: list[int]) -> None:
        """Pages that somebody else has filled, scales included, stand for these prefixes."""
        assert len(slots) == len(prints)
        self.trailers()[:, slots, 0] = _signed(prints).to(self.bytes.device)

    def damaged(self, slots: list[int]) -> list[int]:
        """Those of `slots` whose K and V are not the words that `write` put there."""
        if not slots:
            return []
        sound = torch.ones(len(slots), dtype=torch.bool)
        for layer in range(self.shape.layers):
            words = self.trailers()[layer, slots, 0] ^ _mixed(layer)
            kv = self._kv(layer)[slots].flatten(1)
            sound &= (kv == words[:, None]).all(dim=1).cpu()
        return [slot for slot, ok in zip(slots, sound.tolist(), strict=True) if not ok]

    # -- views: never copies ----------------------------------------------------------------------

    def keys(self, layer: int) -> torch.Tensor:
        """K of one layer as bytes: [slot, token, width x element bytes]."""
        return self._half(layer, 0)

    def values(self, layer: int) -> torch.Tensor:
        """V of one layer, as `keys`."""
        return self._half(layer, 1)

    def scales(self, layer: int) -> torch.Tensor:
        """What K and V of each slot are multiplied with, float32: [slot, 2]."""
        if self.layout is Layout.PAGE_FIRST:
            first = 2 * self.shape.half_bytes * self.shape.layers + layer * TRAILER_BYTES
            trailers = self.bytes[:, first : first + TRAILER_BYTES]
        else:
            trailers = self.blocks()[layer][:, -TRAILER_BYTES:]
        return trailers[:, WORD_BYTES:].view(torch.float32)

    def blocks(self) -> torch.Tensor:
        """[layer, slot, block] of the layouts that have whole blocks."""
        assert self.layout is not Layout.PAGE_FIRST
        return self.bytes if self.layout is Layout.LAYER_FIRST else self.bytes.transpose(0, 1)

    def words(self) -> torch.Tensor:
        """K and V as words: [layer, slot, K or V, token, word], strided as the layout has them."""
        if self.layout is Layout.PAGE_FIRST:
            return self._records().view(torch.int64).permute(2, 0, 3, 1, 4)
        tokens, row = self.shape.tokens, self.shape.row_bytes // WORD_BYTES
        words = self.blocks()[:, :, :-TRAILER_BYTES].view(torch.int64)
        return words.view(self.shape.layers, self.capacity, 2, tokens, row)

    def trailers(self) -> torch.Tensor:
        """Fingerprint and scales, as words: [layer, slot, 2]."""
        if self.layout is Layout.PAGE_FIRST:
            tails = self.bytes[:, -self.shape.layers * TRAILER_BYTES :].view(torch.int64)
            return tails.view(self.capacity, self.shape.layers, 2).transpose(0, 1)
        return self.blocks()[:, :, -TRAILER_BYTES:].view(torch.int64)

    def _half(self, layer: int, half: int) -> torch.Tensor:
        if self.layout is Layout.PAGE_FIRST:
            return self._records()[:, :, layer, half]
        first = half * self.shape.half_bytes
        block = self.blocks()[layer][:, first : first + self.shape.half_bytes]
        return block.view(self.capacity, self.shape.tokens, self.shape.row_bytes)

    def _kv(self, layer: int) -> torch.Tensor:
        """K and V of one layer as words, slots first."""
        if self.layout is Layout.PAGE_FIRST:
            return self._records()[:, :, layer].view(torch.int64)
        return self.blocks()[layer][:, :-TRAILER_BYTES].view(torch.int64)

    def _records(self) -> torch.Tensor:
        """[slot, token, layer, K or V, bytes] of page_first."""
        tokens, layers, row = self.shape.tokens, self.shape.layers, self.shape.row_bytes
        records = self.bytes[:, : -layers * TRAILER_BYTES]
        return records.view(self.capacity, tokens, layers, 2, row)


def _signed(prints: list[int]) -> torch.Tensor:
    return torch.from_numpy(np.array(prints, dtype=np.uint64).view(np.int64).copy())


def _mixed(layer: int) -> int:
    word = (layer + 1) * _MIX % (1 << 64)
    return word - (1 << 64) if word >> 63 else word


_ONE_AND_ONE = int(np.array([1.0, 1.0], dtype=np.float32).view(np.int64)[0])
