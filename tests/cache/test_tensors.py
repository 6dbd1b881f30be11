"""Pools of real bytes: every layout holds the same pages, and a page tells when it is not whole."""

from itertools import product

import pytest
import torch

from cache.config import Component, Tier
from cache.keys import UNWRITTEN
from cache.layout import Layout
from cache.model import KvDtype
from cache.stores import Store
from cache.tensors import TORN, PageShape, TensorStore
from tests.harness.oracles.driver import Driver

SHAPE = PageShape(layers=3, tokens=4, width=16, dtype=KvDtype.FP8_E4M3)
PRINTS = [1, 2**63 + 5, 2**64 - 1]
every_layout = pytest.mark.parametrize("layout", Layout)
every_pair = pytest.mark.parametrize(("first", "second"), list(product(Layout, Layout)))


def a_store(layout: Layout, capacity: int = 6, shape: PageShape = SHAPE) -> TensorStore:
    return TensorStore(shape, capacity, layout)


@every_layout
def test_what_was_written_is_read_and_nothing_else_is_there(layout: Layout) -> None:
    store = a_store(layout)
    store.write([4, 0, 2], PRINTS)
    assert store.read([0, 2, 4]) == [PRINTS[1], PRINTS[2], PRINTS[0]]
    assert store.read([1, 3, 5]) == [UNWRITTEN] * 3
    assert store.damaged([0, 2, 4]) == []
    assert store.bytes.numel() == 6 * SHAPE.page_bytes


@every_pair
def test_a_copy_brings_every_byte_and_the_scales_from_any_layout_to_any(
    first: Layout, second: Layout
) -> None:
    source, target = a_store(first), a_store(second)
    source.write([5, 1, 3], PRINTS)
    generator = torch.Generator().manual_seed(7)
    for layer in range(SHAPE.layers):
        for half in (source.keys(layer), source.values(layer)):
            half[3] = torch.randint(256, half[3].shape, dtype=torch.uint8, generator=generator)
        source.scales(layer)[3] = torch.tensor([0.5 + layer, 2.0])
    target.take(source, [5, 1, 3], [0, 2, 4])
    assert target.read([0, 2, 4]) == PRINTS
    assert target.damaged([0, 2, 4]) == [4]  # page 3's bytes are nobody's pattern any more
    for layer in range(SHAPE.layers):
        assert torch.equal(target.keys(layer)[4], source.keys(layer)[3])
        assert torch.equal(target.values(layer)[4], source.values(layer)[3])
        assert torch.equal(target.scales(layer)[4], source.scales(layer)[3])
    assert target.read([1, 3, 5]) == [UNWRITTEN] * 3


@every_layout
def test_a_page_whose_layers_are_not_of_one_prefix_is_torn(layout: Layout) -> None:
    store = a_store(layout)
    store.write([1, 2], PRINTS[:2])
    store.trailers()[2, 1, 0] = 9
    assert store.read([1, 2]) == [TORN, PRINTS[1]]


@every_layout
def test_one_wrong_byte_is_seen(layout: Layout) -> None:
    store = a_store(layout)
    store.write([1, 2], PRINTS[:2])
    store.values(1)[2, 3, 7] += 1
    assert store.damaged([1, 2]) == [2]
    assert store.read([2]) == [PRINTS[1]], "a read looks at the trailers alone"


@every_layout
def test_forgotten_pages_read_as_unwritten(layout: Layout) -> None:
    store = a_store(layout)
    store.write([0, 1], PRINTS[:2])
    store.forget([0])
    assert store.read([0, 1]) == [UNWRITTEN, PRINTS[1]]


@every_layout
@pytest.mark.parametrize("dtype", [KvDtype.FP8_E5M2, KvDtype.BF16])
def test_keys_and_values_are_views_that_a_kernel_can_read_as_their_type(
    layout: Layout, dtype: KvDtype
) -> None:
    store = a_store(layout, shape=SHAPE._replace(dtype=dtype))
    kind = torch.bfloat16 if dtype is KvDtype.BF16 else torch.float8_e5m2
    numbers = torch.arange(4 * 16, dtype=torch.float32).reshape(4, 16).remainder(4)
    store.keys(1)[2] = numbers.to(kind).view(torch.uint8)
    assert torch.equal(store.keys(1).view(kind)[2].to(torch.float32), numbers)
    assert store.keys(1).data_ptr() != store.values(1).data_ptr()


def tensors(layout: Layout) -> type:
    """Device pages layer by layer, host pages as `layout` has them."""

    def store_of(tier: Tier, component: Component, capacity: int) -> Store:
        return a_store(Layout.LAYER_FIRST if tier is Tier.DEVICE else layout, capacity)

    return store_of  # type: ignore[return-value]


@every_layout
def test_a_cache_of_real_bytes_is_sound_and_was_put_to_work(layout: Layout) -> None:
    landed = 0
    for seed in range(12):
        driven = Driver(seed, store_of=tensors(layout)).run()
        assert driven.violations == [], seed
        landed += driven.counts["load-back_done"]
    assert landed > 5


def test_a_copy_that_leaves_a_layer_out_is_seen_by_the_content_oracle() -> None:
    class Short(TensorStore):
        def take(self, other: TensorStore, source: list[int], target: list[int]) -> None:
            kept = self.trailers()[1, target, 0].clone()
            super().take(other, source, target)
            self.trailers()[1, target, 0] = kept

    def store_of(tier: Tier, component: Component, capacity: int) -> Store:
        return Short(SHAPE, capacity, Layout.LAYER_FIRST)

    found = [Driver(seed, store_of=store_of).run().oracles for seed in range(6)]
    assert ["C1"] in found


@pytest.mark.gpu
@every_layout
def test_the_host_pool_of_a_gpu_is_pinned_and_no_larger_than_it_has_to_be(layout: Layout) -> None:
    device = TensorStore(SHAPE, 6, Layout.LAYER_FIRST, "cuda")
    host = TensorStore(SHAPE, 5, layout, pinned=True)
    assert host.bytes.is_pinned()
    assert host.bytes.untyped_storage().nbytes() == 5 * SHAPE.page_bytes
    device.write([5, 1, 3], PRINTS)
    host.take(device, [5, 1, 3], [0, 2, 4])
    torch.cuda.synchronize()
    assert host.read([0, 2, 4]) == PRINTS
    assert host.damaged([0, 2, 4]) == []


@every_pair
def test_a_page_is_the_same_in_storage_whatever_the_layouts(first: Layout, second: Layout) -> None:
    source, target = a_store(first), a_store(second)
    source.write([5, 1], PRINTS[:2])
    source.scales(1)[5] = torch.tensor([0.5, 4.0])
    bodies = source.bodies([5, 1])
    assert [len(body) for body in bodies] == [source.body_bytes] * 2
    target.restore(3, 0, bodies[0])
    target.restore(0, 0, bodies[1])
    assert target.read([3, 0]) == PRINTS[:2]
    assert target.damaged([3, 0]) == []
    assert target.scales(1)[3].tolist() == [0.5, 4.0]
    assert [bytes(body) for body in target.bodies([3, 0])] == [bytes(body) for body in bodies]
    assert target.read([1, 2, 4, 5]) == [UNWRITTEN] * 4


@every_layout
def test_what_is_sent_to_storage_is_a_copy(layout: Layout) -> None:
    store = a_store(layout)
    store.write([2], PRINTS[:1])
    (body,) = store.bodies([2])
    before = bytes(body)
    store.write([2], PRINTS[1:2])
    assert bytes(body) == before
    assert store.bodies([]) == []


@every_layout
def test_of_a_body_of_another_length_as_much_is_taken_as_there_is_room_for(layout: Layout) -> None:
    store = a_store(layout)
    store.write([0, 1], PRINTS[:2])
    (body,) = store.bodies([0])
    store.restore(1, 0, body[: SHAPE.block_bytes])  # the first layer's block
    assert store.read([1]) == [TORN]
    assert torch.equal(store.keys(0)[1], store.keys(0)[0])
    store.restore(1, 0, memoryview(bytes(body) + b"more"))
    assert store.read([0, 1]) == [PRINTS[0]] * 2
