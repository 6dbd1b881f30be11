"""Pools of real bytes for a compute that runs ahead of the scheduler on a stream of its own.

What the scheduler says about device pages (they hold this prefix now, they hold nothing) must not
overtake the forward that is still filling them, nor be overtaken by a copy. So it goes the way of
the compute: onto its stream, behind the forward and before the next fence.

Invariant: a fingerprint reaches a device page's trailers after the K and V that it stands for.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from cache.config import CacheConfig, Component, Tier
from cache.kernels import Mover
from cache.kernels.direct import DIRECT
from cache.keys import UNWRITTEN
from cache.layout import Layout
from cache.stores import Store
from cache.tensors import PageShape, TensorStore
from harness.device.memory import NoMemory, granted, lacking_memory
from harness.device.streams import Event, Stream


class ComputedStore(TensorStore):
    """Device pages that a compute on `compute` fills: `write` says what they hold and leaves K, V
    and scales alone. What changes trailers is done on that stream, and `read` never waits for it:
    of a page that is still on its way it tells what was said last, else what lies there."""

    def __init__(
        self,
        shape: PageShape,
        capacity: int,
        layout: Layout,
        device: str = "cpu",
        *,
        mover: Mover = DIRECT,
        compute: Stream,
    ) -> None:
        super().__init__(shape, capacity, layout, device, mover=mover)
        self._compute = compute
        self._said: dict[int, tuple[Event, int]] = {}  # by slot, until it lies there

    def write(self, slots: list[int], prints: list[int]) -> None:
        if slots:
            self._say(slots, prints, partial(self.stamp, list(slots), list(prints)))

    def forget(self, slots: list[int]) -> None:
        if slots:
            forgotten = [UNWRITTEN] * len(slots)
            self._say(slots, forgotten, partial(super().forget, list(slots)))

    def read(self, slots: list[int]) -> list[int]:
        said = [self._said.get(slot) for slot in slots]
        under_way = [one is not None and not one[0].done for one in said]
        for slot, one, moving in zip(slots, said, under_way, strict=True):
            if one is not None and not moving:
                self._said.pop(slot, None)
        if not any(under_way):
            return super().read(slots)
        lying = iter(super().read([s for s, m in zip(slots, under_way, strict=True) if not m]))
        return [
            one[1] if moving and one is not None else next(lying)
            for one, moving in zip(said, under_way, strict=True)
        ]

    def take(self, other: TensorStore, source: list[int], target: list[int]) -> None:
        """From itself (a state that a request begins with): on the stream of the compute, too."""
        if other is not self:
            super().take(other, source, target)
        elif target:
            what = partial(super().take, other, list(source), list(target))
            self._say(target, self.read(source), what)

    def _say(self, slots: Sequence[int], prints: Sequence[int], what: "partial[None]") -> None:
        event = self._compute.submit([what]).end
        for slot, print_ in zip(slots, prints, strict=True):
            self._said[slot] = event, print_


class RankStores(NamedTuple):
    """One rank's stores."""

    stores: Mapping[tuple[Tier, Component], TensorStore]

    def store_of(self, tier: Tier, component: Component, capacity: int) -> Store:
        """A `StoreMaker` for the cache of this rank."""
        store = self.stores[tier, component]
        assert store.capacity == capacity
        return store

    def bytes_on(self, tier: Tier) -> int:
        return sum(s.bytes.numel() for (where, _), s in self.stores.items() if where is tier)


def take_memory(
    config: CacheConfig,
    shapes: Mapping[Component, PageShape],
    host_layout: Layout,
    compute: Stream,
    *,
    mover: Mover = DIRECT,
) -> RankStores | NoMemory:
    """The pools of one rank: the device's on `compute.device`, a layer at a time, as attention
    reads them; the host's in `host_layout`, pinned where that device is a GPU."""
    stores: dict[tuple[Tier, Component], TensorStore] = {}
    device = str(compute.device)
    page_bytes = {component: shapes[component].page_bytes for component in config.components}
    if (lacking := lacking_memory(config, page_bytes, device)) is not None:
        return lacking
    for component in config.components:
        shape, sizes = shapes[component], config.pools(component)
        for tier, capacity in ((Tier.DEVICE, sizes.device), (Tier.HOST, sizes.host)):
            take = (
                partial(
                    ComputedStore,
                    *(shape, capacity, Layout.LAYER_FIRST, device),
                    mover=mover,
                    compute=compute,
                )
                if tier is Tier.DEVICE
                else partial(
                    TensorStore,
                    *(shape, capacity, host_layout),
                    pinned=compute.device.type == "cuda",
                    mover=mover,
                )
            )
            made = granted(take, tier, component, capacity * shape.page_bytes)
            if isinstance(made, NoMemory):
                return made
            stores[tier, component] = made
    return RankStores(stores)
