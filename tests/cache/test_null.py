"""The cache of nothing keeps the contract, and is the baseline that it claims to be."""

import pytest

from cache.config import CacheConfig, Component, Tier
from cache.contract import Demand, LoadOutcome
from cache.null import NullCache
from tests.cache.builders import a_config, a_key, admit, compute, serve
from tests.cache.contract_suite import CacheContract


class TestNullCache(CacheContract):
    def build(self, config: CacheConfig) -> NullCache:
        return NullCache(config)


def test_no_key_ever_matches():
    cache = NullCache(a_config(full=(8, 8)))
    for _ in range(2):
        serve(cache, a_key([1, 2]))
        match = cache.match(a_key([1, 2]))
        assert (match.device_tokens, match.loadable_tokens) == (0, 0)


def test_a_closed_request_leaves_every_slot_free_at_once():
    cache = NullCache(a_config(full=(8, 0), swa=(5, 0), window=4))
    serve(cache, a_key([1, 2, 3]))
    assert all(cache.pool(c, Tier.DEVICE).used_slots == 0 for c in cache.config.components)


def test_a_commit_keeps_the_pages_the_requests_own():
    cache = NullCache(a_config(full=(8, 0)))
    key = a_key([1, 2])
    table = admit(cache, key)
    compute(cache, table, key, 4)
    assert cache.commit(table, key).pages == 0
    assert table.shared == 0
    assert cache.make_room(Demand(8)).short == (2,)


def test_nothing_is_loaded_or_copied_even_where_there_is_a_host_tier():
    cache = NullCache(a_config(full=(8, 8)))
    serve(cache, a_key([1, 2]))
    match = cache.match(a_key([1, 2]))
    lock = cache.lock(match, "r.admission")
    assert lock is not None
    assert cache.load_back(match, lock).outcome is LoadOutcome.NOTHING
    assert len(cache.transfers) == 0
    with pytest.raises(AssertionError, match="no host tier"):
        cache.pool(Component.FULL, Tier.HOST)
