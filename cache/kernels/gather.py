"""A Triton kernel that gathers and scatters pages between any two layouts.

To the kernel a layout is a set of strides. A program moves a tile of one page's rows in one layer,
K or V; the first also moves the trailer. Host memory is read and written in place, over the link,
so it has to be pinned. Invariant: no word of a page is moved by two programs.
"""

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from cache.tensors import TensorStore

TILE_WORDS = 2048  # moved by one program: 16 KiB
WORD_BYTES = 8


@triton.jit  # type: ignore[untyped-decorator]
def _copy_tiles(  # type: ignore[no-untyped-def]
    target,
    source,
    to,
    of,
    first_layer,
    to_layer, to_slot, to_half, to_token,
    of_layer, of_slot, of_half, of_token,
    to_tail, to_tail_layer, to_tail_slot,
    of_tail, of_tail_layer, of_tail_slot,
    tokens,
    row,
    UNIT: tl.constexpr,
    TOKENS: tl.constexpr,
    WORDS: tl.constexpr,
):  # fmt: skip
    """One tile; the grid is pages x layers x (2 halves x tiles). `UNIT` words, by which all strides
    are counted, lie on a boundary of as many and are moved at once."""
    here = tl.load(to + tl.program_id(0)) * UNIT
    there = tl.load(of + tl.program_id(0)) * UNIT
    layer = (first_layer + tl.program_id(1)).to(tl.int64) * UNIT
    half = tl.program_id(2) % 2 * UNIT
    tile = tl.program_id(2) // 2
    token = (tile * TOKENS + tl.arange(0, TOKENS))[:, None]
    word = tl.arange(0, WORDS)[None, :]
    inside = (token < tokens) & (word < row * UNIT)
    reading = source + there * of_slot + layer * of_layer + half * of_half
    writing = target + here * to_slot + layer * to_layer + half * to_half
    moved = tl.load(reading + token * UNIT * of_token + word, mask=inside)
    tl.store(writing + token * UNIT * to_token + word, moved, mask=inside)
    if tl.program_id(2) == 0:
        pair = tl.arange(0, 2)
        read = source + of_tail * UNIT + there * of_tail_slot + layer * of_tail_layer
        wrote = target + to_tail * UNIT + here * to_tail_slot + layer * to_tail_layer
        tl.store(wrote + pair, tl.load(read + pair))


class Strides(NamedTuple):
    """Where a layout puts the words of a page, in words: multiples of layer, slot, K or V, and
    token; then where the trailers begin, and multiples of layer and slot."""

    words: tuple[int, ...]
    trailers: tuple[int, ...]


class Gather:
    """A `Mover` for a GPU and what it can reach: its own memory, and pinned memory of the host."""

    def __init__(self) -> None:
        # Layers of one copy use the same slots one after another.
        self._slots: WeakKeyDictionary[TensorStore, Slots] = WeakKeyDictionary()

    def move(
        self,
        target: "TensorStore",
        to: list[int],
        source: "TensorStore",
        of: list[int],
        layers: range,
    ) -> None:
        device = source.bytes.device if target.bytes.is_cpu else target.bytes.device
        slots = self._slots.get(target)
        if slots is None or slots.to != to or slots.of != of:
            slots = Slots(list(to), list(of), _on(device, to), _on(device, of))
            self._slots[target] = slots
        mine, theirs = strides_of(target), strides_of(source)
        strides = (*mine.words, *theirs.words, *mine.trailers, *theirs.trailers)
        tokens, row = target.shape.tokens, target.shape.row_bytes // WORD_BYTES
        unit = 1 if any(stride % 2 for stride in (*strides, row)) else 2
        words = triton.next_power_of_2(row)
        tile = min(triton.next_power_of_2(tokens), max(1, TILE_WORDS // words))
        _copy_tiles[len(to), len(layers), 2 * triton.cdiv(tokens, tile)](
            target.bytes.view(-1).view(torch.int64),
            source.bytes.view(-1).view(torch.int64),
            slots.to_there,
            slots.of_there,
            layers.start,
            *(stride // unit for stride in strides),
            tokens,
            row // unit,
            UNIT=unit,
            TOKENS=tile,
            WORDS=words,
        )


class Slots(NamedTuple):
    """The slots of a copy, here and where the kernel reads them."""

    to: list[int]
    of: list[int]
    to_there: torch.Tensor
    of_there: torch.Tensor


def strides_of(store: "TensorStore") -> Strides:
    words, trailers = store.words(), store.trailers()
    assert words.stride(4) == trailers.stride(2) == 1
    assert words.storage_offset() == 0
    tail = int(trailers.storage_offset())
    return Strides(words.stride()[:4], (tail, *trailers.stride()[:2]))


def _on(device: torch.device, slots: list[int]) -> torch.Tensor:
    numbers = torch.tensor(slots, dtype=torch.int64)
    if device.type == "cuda":  # or the launch would wait for the stream
        numbers = numbers.pin_memory()
    return numbers.to(device, non_blocking=True)
