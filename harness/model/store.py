"""Stores that a model computes into.

The bytes of a slot come from the model; the fingerprint beside them says, as ever, which prefix
they stand for. Invariant: what nobody computed is wrong in its bytes and not only in its name: a
fingerprint that is written to a slot which the model has not filled since the last one brings the
pattern of a foreign page with it, and a slot that is given back holds a pattern from then on.
"""

import torch
from torch import Tensor

from cache.companions import CompanionStoreMaker
from cache.config import CacheConfig, Companion, Component, Tier
from cache.kernels import Mover
from cache.kernels.direct import DIRECT
from cache.keys import UNWRITTEN
from cache.layout import Layout
from cache.model import KvDtype, ModelShape
from cache.stores import Store, StoreMaker
from cache.tensors import WORD_BYTES, PageShape, TensorStore
from cache.unified import UnifiedCache

NO_SCALE = 64.0  # what is computed here is at most 127, so no page's is as large
SCALES = ("scales", "window_scales")
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
        self.scale_store: ModelStore | None = None  # where scales do not ride in the pages

    def computed(self, slots: list[int]) -> None:
        """The model has filled these, or gone on filling them."""
        for slot in slots:
            self._computed[slot] = 1
        if self.scale_store is not None:
            self.scale_store.computed(slots)

    def scales(self, layer: int) -> Tensor:
        beside = self.scale_store
        return super().scales(layer) if beside is None else beside.scales(layer)

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


class ScaleStore(ModelStore):
    """The scales of fp8 pages as a companion, under the pages' slot numbers: each layer's lie where
    those of a page would. A slot that is given back has scales that no page has."""

    def forget(self, slots: list[int]) -> None:
        super().forget(slots)
        for layer in range(self.shape.layers if slots else 0):
            self.scales(layer)[slots] = NO_SCALE


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


def companion_shape(
    shape: ModelShape, config: CacheConfig, companion: Companion, dtype: KvDtype
) -> PageShape:
    """How a companion's slot looks: the scales by layer, anything else one run of its bytes."""
    if companion.name in SCALES:
        layers = page_shape(shape, config, companion.owner, dtype).layers
        return PageShape(layers, 1, WORD_BYTES, KvDtype.FP8_E4M3)
    words = -(-companion.slot_bytes // (2 * WORD_BYTES))
    return PageShape(1, 1, words * WORD_BYTES, KvDtype.FP8_E4M3)


def companion_store_maker(
    shape: ModelShape,
    config: CacheConfig,
    dtype: KvDtype,
    *,
    device: str = "cpu",
    host_layout: Layout = Layout.PAGE_FIRST,
) -> CompanionStoreMaker:
    """For `UnifiedCache(companion_store_of=)`: tensors beside those of `store_maker`. The model
    fills the scales and reads them; what it has no use for is filled with its page's pattern."""

    def make(tier: Tier, companion: Companion, capacity: int) -> Store:
        pages = companion_shape(shape, config, companion, dtype)
        kind = ScaleStore if companion.name in SCALES else TensorStore
        if tier is Tier.DEVICE:
            return kind(pages, capacity, Layout.LAYER_FIRST, device)
        return kind(pages, capacity, host_layout, pinned=device != "cpu")

    return make


def device_stores(cache: UnifiedCache) -> dict[Component, ModelStore]:
    """What a model computes into. The cache was built with `store_maker`, and with
    `companion_store_maker` where it has companions."""
    found = {}
    for component in cache.config.components:
        pool = cache.pools[Tier.DEVICE, component]
        store = pool.bare
        assert isinstance(store, ModelStore)
        for beside in pool.companions:
            if isinstance(beside.store, ScaleStore):
                store.scale_store = beside.store
        found[component] = store
    return found
