"""Companions go where their owner goes, on every way there is."""

import numpy as np
import pytest

from cache.audit import audit
from cache.companions import OwnSlots
from cache.config import CacheConfig, Companion, Component, ConfigError, PoolPages, Tier
from cache.contract import BrokenInvariant, Demand
from cache.keys import UNWRITTEN, state_print
from cache.pools import Owner
from cache.unified import UnifiedCache
from tests.cache.audit_companion_breaks import DRAFT, SCALES, accompanied, beside, own, slots
from tests.cache.builders import a_cache, a_key, admit, compute, demote, fail, land, node_at, serve

FULL, SWA, MAMBA = Component
DEVICE, HOST = Tier


def held(
    cache: UnifiedCache, tier: Tier, component: Component, pages: list[int]
) -> list[list[int]]:
    """What each companion of a component holds for a node's slots on a tier."""
    of_node = node_at(cache, pages).slots[tier][component]
    assert of_node is not None
    return [companion.read(of_node) for companion in cache.pools[tier, component].companions]


def test_a_companion_is_written_and_backed_up_with_its_page():
    cache, prints = accompanied(), a_key([1, 2]).prints()[:2]
    for tier in Tier:
        assert held(cache, tier, FULL, [1, 2]) == [prints, prints]
    assert audit(cache) == []


def test_a_companion_with_slots_of_its_own_does_not_lie_at_its_owners_numbers():
    cache = accompanied()
    assert set(own(cache).of(slots(cache))).isdisjoint(slots(cache))


def test_a_companion_comes_back_with_a_load_back_and_is_read():
    cache, key = accompanied(), a_key([1, 2, 3])
    demote(cache)
    assert own(cache).pool.used_slots == 0
    table = admit(cache, key)
    land(cache)
    assert cache.read(table, 4).companions == (key.prints()[:2], key.prints()[:2])
    cache.abort(table)
    assert audit(cache) == []


def test_a_split_shares_companions_out_with_the_pages():
    cache = accompanied()
    upper = node_at(cache, [1])
    assert upper.end == 2
    assert held(cache, HOST, FULL, [1]) == [a_key([1]).prints()] * 2
    assert audit(cache) == []


def test_a_copy_that_fails_gives_the_companions_slots_back():
    cache = accompanied()
    demote(cache)
    table = admit(cache, a_key([1, 2, 3]))
    assert own(cache).pool.used_slots == 2
    fail(cache, DEVICE)
    assert own(cache).pool.used_slots == 0
    cache.abort(table)
    assert audit(cache) == []


def test_a_companion_that_compute_did_not_write_stays_unwritten():
    """Freed slots are forgotten with all that belongs to them."""
    cache = accompanied()
    demote(cache)
    table = admit(cache, a_key([7, 8]))
    assert cache.extend(table, 4).enough
    for companion in cache.pools[DEVICE, FULL].companions:
        assert companion.read(table.full) == [UNWRITTEN] * 2


def test_a_recovered_window_has_its_companions():
    cache = a_cache(
        full=(12, 0),
        swa=(8, 0),
        window=4,
        companions=(Companion("scales", SWA, pools=PoolPages(8, 0)),),
    )
    serve(cache, a_key([1, 2, 3]))
    cache.make_room(Demand(0, 8))
    serve(cache, a_key([1, 2, 3, 4]))
    prints = a_key([1, 2, 3]).prints()
    node = node_at(cache, [1, 2, 3])
    found = held(cache, DEVICE, SWA, [1, 2, 3])
    assert found == [prints[-len(node.slots[DEVICE][SWA] or []) :]]
    assert audit(cache) == []


def test_no_more_pages_are_used_than_their_companions_have_room_for():
    few = Companion("draft", FULL, pools=PoolPages(4, 3))
    cache = a_cache(full=(8, 8), companions=(few,))
    assert (cache.pool(FULL, DEVICE).capacity, cache.pool(FULL, HOST).capacity) == (4, 3)
    for page in range(6):
        serve(cache, a_key([page]))
        land(cache)
    assert cache.pool(FULL, HOST).used_slots == 3
    assert audit(cache) == []


def test_a_side_state_is_copied_on_write_and_kept_at_the_boundary():
    side = (Companion("side", MAMBA), Companion("track", MAMBA, pools=PoolPages(5, 5)))
    cache = a_cache(full=(12, 12), mamba=(6, 6), companions=side)
    serve(cache, a_key([1, 2]))
    key = a_key([1, 2, 3])
    table = admit(cache, key)
    compute(cache, table, key, 7)
    expected = [[state_print(key.prints(), 7, 2)]] * 2
    assert table.state is not None
    assert [c.read([table.state]) for c in cache.pools[DEVICE, MAMBA].companions] == expected
    assert list(cache.read(table, 7).companions) == expected
    cache.commit(table, key)
    assert held(cache, DEVICE, MAMBA, [1, 2, 3]) == [[key.prints()[2]]] * 2
    cache.abort(table)
    land(cache)
    assert audit(cache) == []


def test_a_side_state_that_is_wrong_stays_wrong():
    """Computing goes on from what is there; it does not repair it."""
    cache = a_cache(full=(12, 0), mamba=(6, 0), companions=(Companion("side", MAMBA),))
    key = a_key([1, 2, 3])
    table = admit(cache, key)
    compute(cache, table, key, 3)
    (side,) = cache.pools[DEVICE, MAMBA].companions
    assert table.state is not None
    side.write([table.state], side.read([table.state])[:1] and [12345])
    cache.write(table, key.prints(), 4)
    assert side.read([table.state]) != [state_print(key.prints(), 4, 2)]


def test_a_slot_without_its_companion_is_an_error_and_no_answer():
    cache = accompanied()
    own(cache).leave(slots(cache)[:1], Owner.NODE)
    with pytest.raises(BrokenInvariant, match="a slot for"):
        own(cache).of(slots(cache))


@pytest.mark.parametrize("seed", range(4))
def test_pairs_hold_whatever_slots_come_and_go(seed: int):
    cache = a_cache(full=(8, 0), companions=(SCALES, DRAFT))
    pool, chance = cache.pools[DEVICE, FULL], np.random.Generator(np.random.PCG64(seed))
    lots: list[list[int]] = []
    for _ in range(200):
        if lots and chance.integers(2):
            pool.release(lots.pop(int(chance.integers(len(lots)))), Owner.REQUEST)
        else:
            lots.append(pool.allocate(int(chance.integers(pool.free_slots + 1)), Owner.REQUEST))
        mine = [slot for lot in lots for slot in own(cache).of(lot)]
        assert len(set(mine)) == len(mine) == pool.used_slots == own(cache).pool.used_slots


def test_a_cache_without_companions_has_plain_pools():
    cache = a_cache(full=(8, 8))
    for pool in cache.pools.values():
        assert pool.companions == ()
        assert pool.bare is pool.store


@pytest.mark.parametrize(
    ("companions", "says"),
    [
        ((SCALES, SCALES), "names of their own"),
        ((Companion("side", MAMBA),), "which this cache has not"),
        ((Companion("two words", FULL),), "is a word"),
        ((Companion("scales", FULL, slot_bytes=-1),), "-1 bytes"),
        ((Companion("scales", FULL, pools=PoolPages(0, 0)),), "0 device slots|1 device slot"),
        ((Companion("scales", FULL, pools=PoolPages(8, 0)),), "0 host slots"),
    ],
)
def test_companions_that_cannot_work_are_refused(companions, says):
    with pytest.raises(ConfigError, match=says) as error:
        CacheConfig(companions=companions)
    assert "\n" not in str(error.value)


def test_bytes_of_a_slot_are_its_own_and_its_companions():
    config = CacheConfig(
        page_bytes=(100, 0, 0), companions=(Companion("a", FULL, 7), Companion("b", FULL, 5))
    )
    assert config.slot_bytes == (112, 0, 0)
    assert [c.name for c in config.companions_of(FULL)] == ["a", "b"]


def test_own_slots_are_told_from_shared_ones():
    cache = accompanied()
    assert isinstance(beside(cache, HOST, "draft"), OwnSlots)
    assert beside(cache, HOST, "scales").pool is None
