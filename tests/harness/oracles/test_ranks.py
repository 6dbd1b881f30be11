"""R1 and R2 speak when a rank goes its own way, and name what it did."""

from typing import NamedTuple

import pytest

from cache.config import Component, Tier
from cache.contract import Demand
from cache.ranks import RankedCache
from cache.unified import UnifiedCache
from harness.oracles import Ranks
from tests.cache.builders import a_config, a_key, admit, land, serve


class World(NamedTuple):
    cache: RankedCache
    between: Ranks
    found: list[tuple[str, str]]


@pytest.fixture
def world() -> World:
    """Two ranks with a prefix on device and host."""
    found: list[tuple[str, str]] = []
    between = Ranks(2, lambda oracle, signature, *_: found.append((oracle, signature)))
    config = a_config(full=(8, 8), swa=(5, 5), window=2)
    cache = RankedCache([UnifiedCache(config, own) for own in between.journals], between)
    serve(cache, a_key([1, 2, 3]))
    land(cache)
    return World(cache, between, found)


def test_ranks_that_agree_are_left_in_peace(world: World):
    cache = world.cache
    for text in ([1, 2, 3], [1, 2, 9], [7, 8]):
        serve(cache, a_key(text))
        land(cache)
    cache.make_room(Demand(6, 4))
    cache.abort(admit(cache, a_key([1, 2, 3])))
    land(cache)
    world.between.at_rest(cache.ranks)
    assert world.found == []


def test_an_eviction_on_one_rank_is_told_at_the_end_of_the_operation(world: World):
    world.cache.ranks[1].make_room(Demand(8, 5))
    assert world.found == []
    world.cache.match(a_key([5]))
    assert world.found == [("R1", "decided.dropped")]


def test_a_copy_acknowledged_by_one_rank_is_told(world: World):
    cache = world.cache
    serve(cache, a_key([4, 5]))
    rank = cache.ranks[0]
    copy = rank.transfers.queues[Tier.HOST][0]
    rank.transfers.run(copy)
    rank.acknowledge(copy)
    cache.match(a_key([5]))
    assert world.found == [("R1", "decided.stored")]


def test_trees_that_parted_unheard_are_told_at_rest(world: World):
    node = next(iter(world.cache.ranks[1].tree.nodes()))
    node.hits += 1
    world.between.at_rest(world.cache.ranks)
    assert world.found == [("R1", "tree")]


def test_a_rank_that_skips_an_agreement_is_told(world: World):
    world.cache.agreements.offer(0, "copies to the host", 0)
    world.cache.agreements.offer(0, "copies to the host", 0)
    assert world.found == [("R2", "missing")]


def test_a_rank_that_comes_to_another_agreement_is_told(world: World):
    agreements = world.cache.agreements
    agreements.offer(0, "copies to the host", 0)
    agreements.offer(1, "copies to the device", 0)
    agreements.conclude()
    world.cache.match(a_key([5]))
    assert world.found == [("R2", "order")]


def test_an_outcome_that_is_not_the_least_offer_is_told(world: World, monkeypatch):
    monkeypatch.setattr(world.cache.agreements, "choose", max)
    world.cache.agreements.agree("copies to the host", [0, 2])
    assert world.found == [("R1", "agreed")]


def test_slot_numbers_are_a_ranks_own(world: World):
    world.cache.ranks[1].pool(Component.FULL, Tier.DEVICE)._free.reverse()
    serve(world.cache, a_key([4, 5]))
    world.between.at_rest(world.cache.ranks)
    assert world.found == []
