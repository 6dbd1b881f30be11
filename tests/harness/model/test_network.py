"""Logits follow from the tokens, bit by bit, however a prompt was cut, batched and kept."""

from itertools import pairwise

import pytest
import torch

from cache.config import Component
from cache.keys import UNWRITTEN
from cache.model import KvDtype
from harness.model.network import Network
from harness.model.recurrence import BLOCK
from tests.harness.model.sizes import TOKENS, a_network, a_piece

every_dtype = pytest.mark.parametrize(
    "dtype", [KvDtype.FP8_E4M3, KvDtype.FP8_E5M2, KvDtype.BF16, KvDtype.FP16]
)
END = len(TOKENS)


def whole_prompt(network: Network, at: int = 70, state: int = 9) -> torch.Tensor:
    return network.forward([a_piece(0, END, at=at, state=state)])[0]


@every_dtype
def test_chunks_and_single_tokens_give_the_logits_of_the_whole_prompt(dtype: KvDtype) -> None:
    network, _ = a_network(dtype)
    fresh = whole_prompt(network)
    assert len(fresh.unique()) > 100, "logits that say something"
    cuts = [0, 3, 4, 5, BLOCK, BLOCK + 1, 50, 52, 53, 54, 55, 56, 57, 58, END]
    parts = [network.forward([a_piece(start, stop)])[0] for start, stop in pairwise(cuts)]
    assert torch.equal(torch.cat(parts), fresh)


@every_dtype
def test_a_batch_gives_each_request_the_logits_that_it_has_alone(dtype: KvDtype) -> None:
    network, _ = a_network(dtype)
    fresh = whole_prompt(network)
    long, short = network.forward([a_piece(0, 70), a_piece(0, 21, at=30, state=1)])
    assert torch.equal(long, fresh[:70])
    assert torch.equal(short, fresh[:21])
    for step in range(6):
        pieces = [
            a_piece(70 + step, 71 + step),
            a_piece(21 + step, 22 + step, at=30, state=1),
        ]
        one, other = network.forward(pieces)
        assert torch.equal(one[0], fresh[70 + step])
        assert torch.equal(other[0], fresh[21 + step])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_dtype
def test_a_gpu_computes_the_very_logits_of_a_cpu(dtype: KvDtype) -> None:
    fresh = whole_prompt(a_network(dtype)[0])
    network, _ = a_network(dtype, "cuda")
    assert torch.equal(whole_prompt(network).cpu(), fresh)
    parts = [network.forward([a_piece(a, b)])[0] for a, b in pairwise([0, 33, 34, 60, END])]
    assert torch.equal(torch.cat(parts).cpu(), fresh)


def test_a_prefix_in_other_slots_is_gone_on_from_with_a_copy_of_its_kept_state() -> None:
    network, stores = a_network(KvDtype.FP8_E4M3)
    fresh = whole_prompt(network)
    network.forward([a_piece(0, 41, kept=2)])
    for component in (Component.FULL, Component.SWA):
        stores[component].take(stores[component], list(range(10)), list(range(40, 50)))
    stores[Component.MAMBA].take(stores[Component.MAMBA], [2], [7])
    (rest,) = network.forward([a_piece(40, END, at=40, state=7)])
    assert torch.equal(rest, fresh[40:])


@pytest.mark.parametrize("component", [Component.FULL, Component.SWA, Component.MAMBA])
def test_one_foreign_page_or_state_shows_in_the_logits(component: Component) -> None:
    network, stores = a_network(KvDtype.FP8_E4M3)
    fresh = whole_prompt(network)
    network.forward([a_piece(0, 40)])
    slot = 0 if component is Component.MAMBA else 8
    stores[component].write([slot], [1])  # clears the note that the model filled it
    stores[component].write([slot], [1])
    (rest,) = network.forward([a_piece(40, 48)])
    assert not torch.equal(rest, fresh[40:48])


def test_a_scale_that_did_not_travel_shows_in_the_logits() -> None:
    network, stores = a_network(KvDtype.FP8_E4M3)
    fresh = whole_prompt(network)
    network.forward([a_piece(0, 40)])
    stores[Component.FULL].scales(0)[3] *= 2
    (rest,) = network.forward([a_piece(40, 48)])
    assert not torch.equal(rest, fresh[40:48])


def test_a_recurrent_request_that_begins_reads_nothing_of_its_slot() -> None:
    network, stores = a_network(KvDtype.FP8_E4M3)
    fresh = whole_prompt(network)
    for half in stores[Component.MAMBA].states(0):
        half.fill_(torch.nan)
    stores[Component.FULL].bytes.fill_(0x7F)  # not a number, in fp8
    (again,) = network.forward([a_piece(0, 30)])
    assert torch.equal(again, fresh[:30])


def test_a_stamp_keeps_computed_bytes_and_a_foreign_write_does_not() -> None:
    network, stores = a_network(KvDtype.FP8_E4M3)
    store = stores[Component.FULL]
    network.forward([a_piece(0, 8)])
    before = store.keys(0)[:2].clone()
    store.write([0, 1], [11, 12])
    assert store.read([0, 1]) == [11, 12]
    assert torch.equal(store.keys(0)[:2], before)
    store.write([1], [13])
    assert store.read([0, 1]) == [11, 13]
    assert not torch.equal(store.keys(0)[1], before[1])
    store.forget([0])
    assert store.read([0]) == [UNWRITTEN]
