"""Stores: a slot holds what was last written to it, and nothing once it has been given up."""

from cache.config import Component, Tier
from cache.keys import UNWRITTEN
from cache.stores import FingerprintStore
from tests.cache.builders import a_cache, a_key, demote, serve


def test_slots_may_be_written_and_read_in_any_order():
    store = FingerprintStore(4)
    store.write([3, 0], [30, 10])
    store.write([0], [11])
    assert store.read([0, 3, 1]) == [11, 30, UNWRITTEN]


def test_content_dies_with_ownership_so_that_a_use_after_free_reads_nothing():
    cache = a_cache()
    serve(cache, a_key([1, 2]))
    pool = cache.pool(Component.FULL, Tier.DEVICE)
    held = [slot for slot in range(pool.capacity) if slot not in pool.free_list()]
    assert UNWRITTEN not in pool.store.read(held)
    demote(cache)
    assert pool.store.read(held) == [UNWRITTEN] * len(held)
