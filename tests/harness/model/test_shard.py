"""A model that ranks have dealt out: the logits of the whole one, bit by bit."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from threading import Barrier, Thread

import pytest
import torch
from torch import Tensor

from cache.config import ConfigError, Tier
from cache.model import KvDtype
from harness.model.network import Network
from harness.model.shard import WHOLE, Shard
from harness.model.store import ModelStore, store_maker
from harness.model.weights import make_weights
from tests.harness.model.sizes import CONFIG, HYBRID, SLOTS, TOKENS, a_piece

KIND = replace(HYBRID.full, kv_heads=2)
SHAPE = replace(HYBRID, query_heads=4, full=KIND, swa=KIND)
WEIGHTS = make_weights(SHAPE, 5, "cpu")
END = len(TOKENS)


class Meeting:
    """Sums over threads."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self._barrier = Barrier(ranks, timeout=30)
        self._parts: list[Tensor] = [torch.empty(0)] * ranks

    def meet(self, rank: int, part: Tensor, reduce: Callable[[Tensor], Tensor]) -> Tensor:
        self._parts[rank] = part.clone()
        self._barrier.wait()
        reduced = reduce(torch.stack(self._parts))
        self._barrier.wait()
        return reduced


class Member:
    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.ranks = meeting.ranks
        self._meeting, self._rank = meeting, rank

    def total(self, part: Tensor) -> Tensor:
        return self._meeting.meet(self._rank, part, lambda parts: parts.sum(0))

    def greatest(self, part: Tensor) -> Tensor:
        return self._meeting.meet(self._rank, part, lambda parts: parts.amax(0))


def a_network(dtype: KvDtype, shard: Shard, meeting: Meeting | None = None) -> Network:
    part = shard.part(SHAPE)
    make = store_maker(part, CONFIG, dtype)
    stores = {}
    for component in CONFIG.components:
        store = make(Tier.DEVICE, component, SLOTS)
        assert isinstance(store, ModelStore)
        stores[component] = store
    weights = shard.weights(WEIGHTS, SHAPE)
    if meeting is None:
        return Network(part, weights, CONFIG, stores)
    return Network(part, weights, CONFIG, stores, Member(meeting, shard.rank))


@pytest.mark.parametrize("dtype", [KvDtype.FP8_E4M3, KvDtype.BF16])
def test_ranks_that_hold_some_heads_each_have_the_logits_of_the_whole_model(dtype: KvDtype) -> None:
    fresh = a_network(dtype, WHOLE).forward([a_piece(0, END)])[0]
    meeting = Meeting(2)
    seen: dict[int, Tensor] = {}

    def compute(rank: int) -> None:
        network = a_network(dtype, Shard(rank, 2), meeting)
        cuts = [0, 33, 34, 35, 60, END]
        parts = [network.forward([a_piece(start, stop)])[0] for start, stop in pairwise(cuts)]
        seen[rank] = torch.cat(parts)

    threads = [Thread(target=compute, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(seen[0], fresh)
    assert torch.equal(seen[1], fresh)


def test_all_shards_together_are_the_weights() -> None:
    for number, layer in enumerate(WEIGHTS.layers):
        parts = [Shard(rank, 2).weights(WEIGHTS, SHAPE).layers[number] for rank in range(2)]
        assert torch.equal(torch.cat([part.out for part in parts], dim=1), layer.out)
        assert torch.equal(torch.cat([part.down for part in parts], dim=1), layer.down)
        rows = torch.cat([part.qkv for part in parts]).unique(dim=0)
        assert torch.equal(rows, layer.qkv.unique(dim=0))


def test_a_part_of_a_head_is_refused() -> None:
    with pytest.raises(ConfigError, match="--tp 4 does not divide the 2 KV heads"):
        Shard(0, 4).part(SHAPE)
