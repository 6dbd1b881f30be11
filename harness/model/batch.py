"""One forward's pieces as tensors: tokens in a row, pages in groups that attend together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cache.config import CacheConfig, Component
from harness.model.paged import Places
from harness.model.pieces import Piece

TILE = 128  # queries of one prefill chunk that attend together


@dataclass(frozen=True, slots=True)
class Group:
    """Requests with as many new tokens each, whose attention is one batch of matrices.

    rows: [request, query] indices of the tokens in the forward. pages: [request, page] slots.
    seen: [request, token] whether a token of those pages has been written by the end of the
    forward. hidden: [request, query, token] what a query must not look at."""

    rows: Tensor
    pages: Tensor
    seen: Tensor
    hidden: Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """The parts of `pieces` that every layer needs, on one device."""

    pieces: Sequence[Piece]
    tokens: Tensor
    positions: Tensor
    firsts: list[int]  # where each piece begins in the row of tokens
    places: dict[Component, Places]
    groups: dict[Component, list[Group]]


def make_batch(pieces: Sequence[Piece], config: CacheConfig, device: str) -> Batch:
    lengths = [len(piece.tokens) for piece in pieces]
    assert lengths
    assert min(lengths) > 0
    firsts = [0, *np.cumsum(lengths)[:-1].tolist()]
    positions = np.concatenate([np.arange(p.start, p.stop) for p in pieces])
    paged = [c for c in config.components if c is not Component.MAMBA]
    return Batch(
        pieces=pieces,
        tokens=_tensor(np.concatenate([p.tokens for p in pieces]), device),
        positions=_tensor(positions, device),
        firsts=firsts,
        places={c: _places(pieces, positions, c, config.page_size, device) for c in paged},
        groups={c: list(_groups(pieces, firsts, c, config, device)) for c in paged},
    )


def _tensor(values: "NDArray[np.generic]", device: str) -> Tensor:
    return torch.from_numpy(values.astype(np.int64)).to(device)


def _pages(piece: Piece, component: Component) -> tuple[list[int], int]:
    """Slots of a component, and the page that the first of them holds."""
    return (piece.full, 0) if component is Component.FULL else (piece.swa, piece.swa_start)


def _places(
    pieces: Sequence[Piece],
    positions: NDArray[np.int64],
    component: Component,
    page_size: int,
    device: str,
) -> Places:
    slots = []
    for piece in pieces:
        pages, first = _pages(piece, component)
        at = np.arange(piece.start, piece.stop) // page_size - first
        slots.append(np.array(pages, dtype=np.int64)[at])
    rows = positions % page_size
    return Places(
        _tensor(np.concatenate(slots), device),
        _tensor(rows, device),
        _tensor(np.flatnonzero(rows == 0), device),
    )


def _groups(
    pieces: Sequence[Piece],
    firsts: list[int],
    component: Component,
    config: CacheConfig,
    device: str,
) -> "list[Group]":
    """The single tokens of a decode in one group; a chunk in tiles of queries, each with the pages
    up to its end."""
    alone = [n for n, piece in enumerate(pieces) if len(piece.tokens) == 1]
    groups = []
    if alone:
        spans = [(pieces[n], firsts[n], 0, 1) for n in alone]
        groups.append(_group(spans, component, config, device))
    for piece, first in zip(pieces, firsts, strict=True):
        count = len(piece.tokens)
        if count > 1:
            groups += [
                _group([(piece, first, at, min(at + TILE, count))], component, config, device)
                for at in range(0, count, TILE)
            ]
    return groups


Span = tuple[Piece, int, int, int]  # a piece, its first row, and which of its tokens


def _group(spans: list[Span], component: Component, config: CacheConfig, device: str) -> Group:
    size = config.page_size
    window = config.window if component is Component.SWA else 0
    count = spans[0][3] - spans[0][2]
    rows = np.array([np.arange(first + a, first + b) for _, first, a, b in spans])
    queries = np.array([np.arange(p.start + a, p.start + b) for p, _, a, b in spans])
    slots, first_pages = [], []
    for piece, _, a, b in spans:
        pages, first = _pages(piece, component)
        low = first
        if window:
            low = max(first, (piece.start + a + 1 - window) // size)
        slots.append(pages[low - first : -(-(piece.start + b) // size) - first])
        first_pages.append(low)
    widest = max(len(s) for s in slots)
    table = np.array([s + [s[0]] * (widest - len(s)) for s in slots])
    positions = np.array(first_pages)[:, None] * size + np.arange(widest * size)
    last = queries[:, -1:]
    hidden = positions[:, None, :] > queries[:, :, None]
    if window:
        hidden |= positions[:, None, :] <= queries[:, :, None] - window
    assert rows.shape == (len(spans), count)
    return Group(
        _tensor(rows, device),
        _tensor(table, device),
        torch.from_numpy(positions <= last).to(device),
        torch.from_numpy(hidden).to(device),
    )
