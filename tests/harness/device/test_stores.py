"""Memory of a rank is there or a result says why not; what is said of pages goes by the stream."""

import threading
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from cache.config import Component, ConfigError, Tier
from cache.keys import UNWRITTEN
from cache.layout import Layout
from cache.tensors import PageShape, TensorStore
from harness.device import memory
from harness.device.memory import NoMemory
from harness.device.streams import Stream
from tests.cache.builders import a_config
from tests.harness.device.rig import SHAPES
from tests.harness.device.stores import ComputedStore, RankStores, take_memory

SHAPE = SHAPES[Component.FULL]


@pytest.fixture
def gate():
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.fixture
def compute(gate):
    stream = Stream("compute")
    yield stream
    gate.set()
    stream.close()


@pytest.mark.parametrize("layout", Layout)
def test_every_place_of_a_rank_gets_its_memory(compute, layout):
    config = a_config(full=(4, 8), swa=(3, 5), window=4, mamba=(2, 3))
    taken = take_memory(config, SHAPES, layout, compute)
    assert isinstance(taken, RankStores)
    for (tier, component), store in taken.stores.items():
        capacity = config.pools(component)[tier]
        assert taken.store_of(tier, component, capacity) is store
        assert store.layout is (Layout.LAYER_FIRST if tier is Tier.DEVICE else layout)
    full, swa, state = (SHAPES[c].page_bytes for c in Component)
    assert taken.bytes_on(Tier.HOST) == 8 * full + 5 * swa + 3 * state


def test_more_memory_than_there_is_is_a_result(compute):
    found = take_memory(a_config(full=(4, 10**12)), SHAPES, Layout.PAGE_FIRST, compute)
    assert isinstance(found, NoMemory)
    assert found.wanted_bytes == 10**12 * SHAPE.page_bytes
    assert found.sentence().startswith("no memory for the host FULL pool of")
    assert "\n" not in found.sentence()


def test_the_pools_of_one_machine_add_up(compute, monkeypatch):
    config = a_config(full=(4, 8))
    free = 11 * SHAPE.page_bytes
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=free))
    page_bytes = {Component.FULL: SHAPE.page_bytes}
    lacking = memory.lacking_memory(config, page_bytes, "cpu")
    assert lacking is not None
    assert (lacking.pool, lacking.wanted_bytes) == ("host FULL", 8 * SHAPE.page_bytes)
    lacking = memory.lacking_memory(a_config(full=(4, 3)), page_bytes, "cpu", ranks=2)
    assert lacking is not None  # both ranks are here
    assert (lacking.pool, lacking.wanted_bytes) == ("host FULL", 6 * SHAPE.page_bytes)
    monkeypatch.setattr(memory, "_free_on_gpu", lambda device: 4 * SHAPE.page_bytes)
    assert memory.lacking_memory(config, page_bytes, "cuda:0") is None
    assert memory.lacking_memory(config, page_bytes, "cuda:0", ranks=2) is not None  # their hosts
    lacking = memory.lacking_memory(a_config(full=(5, 1)), page_bytes, "cuda:0", ranks=2)
    assert lacking is not None
    assert (lacking.pool, lacking.wanted_bytes) == ("device FULL", 5 * SHAPE.page_bytes)


def test_memory_that_is_refused_is_a_result_and_other_errors_are_none():
    def refuse(error: Exception):
        def taking() -> TensorStore:
            raise error

        return memory.granted(taking, Tier.DEVICE, Component.SWA, 3 << 30)

    refused = refuse(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB\nmore"))
    assert isinstance(refused, NoMemory)
    told = "no memory for the device SWA pool of 3.0 GiB: CUDA out of memory. Tried to allocate 3"
    assert refused.sentence() == f"{told} GiB"
    assert isinstance(refuse(MemoryError()), NoMemory)
    with pytest.raises(RuntimeError, match="shape"):
        refuse(RuntimeError("a wrong shape"))
    for capacity in (200, 10**9):  # beyond any address space, and beyond any number
        huge = PageShape(1, 10**6, 10**6, SHAPE.dtype)
        take = partial(TensorStore, huge, capacity, Layout.PAGE_FIRST)
        found = memory.granted(take, Tier.HOST, Component.FULL, 1)
        assert isinstance(found, NoMemory)  # as this machine's torch says it


def test_memory_that_runs_out_later_is_one_line():
    told = r"^memory ran out \(CUDA out of memory\): lower"
    with pytest.raises(ConfigError, match=told), memory.shortage_told():
        raise torch.OutOfMemoryError("CUDA out of memory\n and more")
    with pytest.raises(RuntimeError, match="a bug"), memory.shortage_told():
        raise RuntimeError("a bug")


def test_memory_that_torch_refuses_is_a_result(compute):
    huge = {Component.FULL: PageShape(10**6, 10**6, 10**6, SHAPE.dtype)}
    compute.device = type("Device", (), {"type": "none", "__str__": lambda self: "cpu"})()
    found = take_memory(a_config(full=(10**6, 0)), huge, Layout.PAGE_FIRST, compute)
    assert isinstance(found, NoMemory)
    assert "\n" not in found.sentence()


def test_what_is_said_of_a_page_is_read_at_once_and_lies_there_behind_the_forward(compute, gate):
    store = ComputedStore(SHAPE, 4, Layout.LAYER_FIRST, compute=compute)
    compute.submit([gate.wait])
    store.write([1, 2], [11, 12])
    store.forget([2])
    assert store.read([0, 1, 2]) == [UNWRITTEN, 11, UNWRITTEN]
    assert TensorStore.read(store, [1]) == [UNWRITTEN]
    gate.set()
    assert compute.record().wait()
    assert store.read([0, 1, 2]) == TensorStore.read(store, [0, 1, 2]) == [UNWRITTEN, 11, UNWRITTEN]


def test_a_state_that_a_request_begins_with_is_copied_behind_the_forward(compute, gate):
    store = ComputedStore(SHAPE, 4, Layout.LAYER_FIRST, compute=compute)
    compute.submit([gate.wait, lambda: TensorStore.write(store, [0], [7])])
    store.write([0], [7])
    store.take(store, [0], [3])
    assert store.read([3]) == [7]
    gate.set()
    assert compute.record().wait()
    assert store.damaged([0, 3]) == []
    assert TensorStore.read(store, [3]) == [7]
