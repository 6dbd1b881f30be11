"""Stores that a model computes into.

The bytes of a slot come from the model; the fingerprint beside them says, as ever, which prefix
they stand for. Invariant: what nobody computed is wrong in its bytes and not only in its name: a
fingerprint that is written to a slot which the model has not filled since the last one brings the
pattern of a foreign page with it, and a slot that is given back holds a pattern from then on.
"""

import torch
from torch import Tensor

from cache.config import CacheConfig, Component, Tier
from cache.kernels import Mover
from cache.kernels.direct import DIRECT
from cache.keys import UNWRITTEN
from cache.layout import Layout
from cache.model import KvDtype, ModelShape
from cache.stores import Store, StoreMaker
from cache.tensors import PageShape, TensorStore

TORCH_DTYPES = {
    KvDtype.FP8_E4M3: torch.float8_e4m3fn,
    KvDtype.FP8_E5M2: torch.float8_e5m2,
    KvDtype.BF16: torch.bfloat16,
    KvDtype.AUTO: torch.bfloat16,
    KvDtype.FP16: torch.float16,
}


class ModelStore(TensorStore):
    """Pages, or states, of one component on one tier."""

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
        super().__init__(shape, capacity, layout, device, pinned=pinned, mover=mover)
        self._computed = bytearray(capacity)

    def computed(self, slots: list[int]) -> None:
        """The model has filled these, or gone on filling them."""
        for slot in slots:
            self._computed[slot] = 1

    def write(self, slots: list[int], prints: list[int]) -> None:
        named = [n for n, slot in enumerate(slots) if self._computed[slot]]
        foreign = [n for n, slot in enumerate(slots) if not self._computed[slot]]
        self.stamp([slots[n] for n in named], [prints[n] for n in named])
        for slot in slots:
            self._computed[slot] = 0
        if foreign:
            super().write([slots[n] for n in foreign], [prints[n] for n in foreign])

    def forget(self, slots: list[int]) -> None:
        for slot in slots:
            self._computed[slot] = 0
        super().write(slots, [UNWRITTEN] * len(slots))

    def states(self, layer: int) -> tuple[Tensor, Tensor]:
        """A recurrent layer's state as two halves of float32: [slot, elements / 2]."""
        halves = (self.keys(layer), self.values(layer))
        first, second = (half[:, 0].view(torch.float32) for half in halves)
        return first, second


def page_shape(
    shape: ModelShape, config: CacheConfig, component: Component, dtype: KvDtype
) -> PageShape:
    """How a slot of a component looks on a single rank."""
    if component is Component.MAMBA:
        recurrent = shape.recurrent
        assert recurrent is not None
        # float32 elements, half of them where a page has keys and half where it has values
        elements = recurrent.heads * recurrent.key_dim * recurrent.value_dim
        return PageShape(recurrent.layers, 1, elements, KvDtype.BF16)
    kind = shape.full if component is Component.FULL else shape.swa
    assert kind is not None
    return PageShape(kind.layers, config.page_size, kind.kv_heads * kind.key_dim, dtype)


def store_maker(
    shape: ModelShape,
    config: CacheConfig,
    dtype: KvDtype,
    *,
    device: str = "cpu",
    host_layout: Layout = Layout.PAGE_FIRST,
    mover: Mover = DIRECT,
) -> StoreMaker:
    """For `UnifiedCache(store_of=)`. The device's stores are laid out layer first, as attention
    reads them; the host's memory is pinned where there is a GPU. `mover` copies between them."""

    def make(tier: Tier, component: Component, capacity: int) -> Store:
        pages = page_shape(shape, config, component, dtype)
        if tier is Tier.DEVICE:
            return ModelStore(pages, capacity, Layout.LAYER_FIRST, device, mover=mover)
        return ModelStore(pages, capacity, host_layout, pinned=device != "cpu", mover=mover)

    return make
