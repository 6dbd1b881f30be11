"""N1: logits over cached, loaded-back or prefetched KV equal those computed from scratch.

The bound is 0: every sum of this model is exact, so nothing but wrong content makes a difference
(see `exact`, where the bound is derived). What N1 cannot see: pages that no sampled request attends
to, a page that was lost and computed anew (slower, and right), and the name of a page beside right
bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cache.config import MAMBA, SWA, Component
from cache.table import PageTable
from harness.explore.prng import SplitMix, derive
from harness.model.pieces import Piece
from harness.model.scratch import Scratch
from harness.model.shard import WHOLE, Shard
from harness.model.store import ModelStore
from harness.model.weights import COMPONENTS


class Wrong(NamedTuple):
    """A violation of N1, as the watch wants it."""

    signature: str
    expected: str
    seen: str


class Held(NamedTuple):
    """Bytes of one layer as a request had them: K, V and scales of its pages, or a state's two
    halves; `first` is the page of the first one."""

    component: Component
    layer: int
    first: int
    slots: list[int]
    parts: tuple[Tensor, ...]


@dataclass(slots=True)
class Question:
    """What a sampled request's logits were, and everything that is needed to judge them later, in
    another thread: `rows` are logits by position."""

    name: str
    tokens: NDArray[np.int32]
    rows: dict[int, Tensor]
    held: list[Held]
    origin: list[str] = field(default_factory=list)  # of each page


class Numerics:
    """Asks about a share of all requests, drawn by their number, and judges the answers. `scratch`
    is the whole model, of which the pages that are held are the part of `shard`."""

    def __init__(
        self,
        scratch: Scratch,
        pattern: str,
        page_size: int,
        *,
        share: float,
        seed: int,
        shard: Shard = WHOLE,
    ) -> None:
        self._shard = shard
        self._scratch = scratch
        self._pattern = pattern
        self._page_size = page_size
        self._share = share
        self._seed = seed
        self.checked_positions = 0
        self.checked_requests = 0

    def samples(self, number: int) -> bool:
        """Whether the request of that number is checked, whatever became of others."""
        return SplitMix(derive(self._seed, 0x4E31, number)).unit() < self._share

    def hold(self, piece: Piece, stores: "dict[Component, ModelStore]") -> list[Held]:
        """A copy of what `piece` has attended to and left behind, layer by layer in order."""
        return list(self._held(piece, stores))

    def judge(self, question: Question) -> Wrong | None:
        """Recompute and compare, bit by bit."""
        first = min(question.rows)
        fresh = self._scratch.logits(question.tokens, first)
        self.checked_requests += 1
        self.checked_positions += len(question.rows)
        for position, row in sorted(question.rows.items()):
            if not torch.equal(row, fresh[position - first]):
                return self._wrong(question, position, row, fresh[position - first])
        return None

    def _held(self, piece: Piece, stores: "dict[Component, ModelStore]") -> Iterator[Held]:
        numbers = dict.fromkeys(COMPONENTS, 0)
        for letter in self._pattern:
            component, layer = COMPONENTS[letter], numbers[letter]
            numbers[letter] += 1
            store = stores[component]
            if component is MAMBA:
                assert piece.state is not None
                halves = tuple(half[[piece.state]].cpu() for half in store.states(layer))
                yield Held(component, layer, 0, [piece.state], halves)
                continue
            slots, start = (piece.swa, piece.swa_start) if component is SWA else (piece.full, 0)
            kinds = (store.keys(layer), store.values(layer), store.scales(layer))
            yield Held(component, layer, start, slots, tuple(kind[slots].cpu() for kind in kinds))

    def _wrong(self, question: Question, position: int, row: Tensor, fresh: Tensor) -> Wrong:
        apart = (row != fresh).sum().item()
        where = f"{question.name} at position {position}"
        expected = f"the logits of a recomputation of {where}: {_head(fresh)}"
        seen = f"{apart} of {len(row)} differ: {_head(row)}"
        culprit = self._first_difference(question)
        if culprit is None:
            return Wrong("logits", expected, f"{seen}; its pages now hold what they should")
        held, at = culprit
        kind = held.component.name.lower()
        if held.component is MAMBA:
            what = f"state of recurrent layer {held.layer} in slot {held.slots[0]}"
        else:
            page = held.first + at
            what = f"{kind} layer {held.layer}, page {page} in slot {held.slots[at]}"
            if page < len(question.origin):
                what += f" ({question.origin[page]})"
        return Wrong(f"logits.{kind}", expected, f"{seen}; first: {what}")

    def _first_difference(self, question: Question) -> tuple[Held, int] | None:
        """The first layer whose bytes are not those of the recomputation, and which of its pages.
        Rows beyond the last token belong to nobody."""
        stop = len(question.tokens)
        for held in question.held:
            store = self._scratch.stores[held.component]
            if held.component is MAMBA:
                fresh = torch.cat([half[[0]].cpu() for half in store.states(held.layer)], dim=-1)
                if not torch.equal(torch.cat(held.parts, dim=-1), self._shard.columns(fresh)):
                    return held, 0
                continue
            keys, values, scales = held.parts
            for at in range(len(held.slots)):
                page = held.first + at
                rows = min(self._page_size, stop - page * self._page_size)
                k, v = (
                    self._shard.columns(whole[page, :rows]).cpu()
                    for whole in (store.keys(held.layer), store.values(held.layer))
                )
                same = (
                    torch.equal(keys[at, :rows], k)
                    and torch.equal(values[at, :rows], v)
                    and torch.equal(scales[at], store.scales(held.layer)[page].cpu())
                )
                if not same:
                    return held, at
        return None


def origins(table: PageTable, page_size: int) -> list[str]:
    """Of each page: the node that it was served from, or that the request computed it itself."""
    assert table.lock is not None
    found = ["computed by the request"] * len(table.full)
    for node in table.lock.anchor.ancestors():
        for page in range(node.start // page_size, min(node.end // page_size, table.shared)):
            found[page] = f"served from {node}"
    return found


def _head(row: Tensor) -> str:
    return " ".join(f"{value:g}" for value in row[:4].tolist()) + " .."
