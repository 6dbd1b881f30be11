"""What every implementation of the contract must do, written against `cache.contract` alone.

A test class derives from CacheContract and says how to build its cache. Nothing here knows whether
anything is ever cached: a cache of nothing passes too.
"""

import pytest

from cache.config import CacheConfig, Component, Tier
from cache.contract import BrokenInvariant, Cache, Demand
from tests.cache.builders import a_config, a_key, admit, compute, land, serve

CONFIGS = {
    "full": a_config(full=(8, 0)),
    "window": a_config(full=(8, 0), swa=(5, 0), window=4),
    "odd window": a_config(page=2, full=(8, 0), swa=(5, 0), window=3),
    "tiny pages": a_config(page=1, full=(8, 0), swa=(5, 0), window=2),
    "states": a_config(full=(8, 0), mamba=(2, 0)),
    "window and states": a_config(full=(8, 0), swa=(5, 0), window=4, mamba=(3, 0)),
    "page over window": a_config(page=4, full=(8, 0), swa=(4, 0), window=1),
}


class CacheContract:
    def build(self, config: CacheConfig) -> Cache:
        raise AssertionError("a test class says what it tests")

    @pytest.fixture(params=CONFIGS.values(), ids=CONFIGS.keys())
    def cache(self, request: pytest.FixtureRequest) -> Cache:
        return self.build(request.param)

    @pytest.fixture(params=[name for name in CONFIGS if CONFIGS[name].window])
    def windowed(self, request: pytest.FixtureRequest) -> Cache:
        return self.build(CONFIGS[request.param])

    def key(self, cache: Cache, pages: list[int], namespace: str = ""):
        return a_key(pages, cache.config.page_size, namespace)

    def test_a_request_reads_its_own_pages_at_every_step_of_its_life(self, cache):
        page, window = cache.config.page_size, cache.config.window
        key = self.key(cache, [1, 2, 3, 4, 5])
        prints = key.prints()
        for _ in range(2):  # the second time with whatever the first has left
            table = admit(cache, key)
            for tokens in range(max(1, table.written), 5 * page + 1):
                compute(cache, table, key, tokens)
                cache.commit(table, key)
                cache.slide(table, tokens)
                reading = cache.read(table, tokens)
                assert reading.full == prints[: tokens // page]
                assert reading.swa == prints[reading.swa_start : tokens // page]
                if window:
                    assert reading.swa_start <= max(0, tokens - window) // page
            cache.finish(table, key)

    def test_a_hit_is_whole_pages_and_never_the_whole_key(self, cache):
        page = cache.config.page_size
        serve(cache, self.key(cache, [1, 2]))
        whole = a_key([1, 2], page, tail=0)
        match = cache.match(whole)
        assert match.device_tokens % page == match.loadable_tokens % page == 0
        assert match.device_tokens <= match.loadable_tokens < whole.tokens

    def test_a_match_uses_no_slot_and_frees_none(self, cache):
        serve(cache, self.key(cache, [1, 2, 3]))
        before = self.used(cache)
        for text in ([1, 2, 3], [1, 9], [7]):
            cache.match(self.key(cache, text))
        assert self.used(cache) == before

    def test_a_namespace_is_never_served_from_another(self, cache):
        serve(cache, self.key(cache, [1, 2], "lora"))
        for namespace in ("", "lor", "lora2"):
            assert cache.match(self.key(cache, [1, 2], namespace)).loadable_tokens == 0

    def test_an_extension_is_all_pages_or_none(self, cache):
        page = cache.config.page_size
        table = admit(cache, self.key(cache, [1]))
        room = cache.extend(table, 20 * page)
        assert not room.enough
        assert max(room.short) > 0
        assert (table.full, self.used(cache)) == ([], [0] * len(cache.config.components))
        assert cache.extend(table, 2 * page).enough
        assert len(table.full) == 2
        assert cache.extend(table, 2 * page).enough, "what is there already needs no room"
        assert len(table.full) == 2

    def test_a_partly_filled_page_is_the_requests_from_its_first_token(self, cache):
        page = cache.config.page_size
        table = admit(cache, self.key(cache, [1]))
        assert cache.extend(table, page + 1).enough
        assert len(table.full) == 2

    def test_two_running_requests_never_share_a_page_that_one_of_them_may_write(self, cache):
        page = cache.config.page_size
        tables = [admit(cache, self.key(cache, [1]), name) for name in ("a", "b")]
        for table in tables:
            compute(cache, table, self.key(cache, [1]), page)
        assert not set(tables[0].full) & set(tables[1].full)

    def test_sliding_gives_window_slots_back_while_the_request_runs(self, windowed):
        page = windowed.config.page_size
        key = self.key(windowed, [1, 2, 3, 4])
        table = admit(windowed, key)
        compute(windowed, table, key, 4 * page)
        held = windowed.pool(Component.SWA, Tier.DEVICE).used_slots
        windowed.slide(table, 4 * page)
        assert windowed.pool(Component.SWA, Tier.DEVICE).used_slots < held
        windowed.slide(table, 4 * page)
        assert windowed.read(table, 4 * page).full == key.prints()[:4]

    @pytest.mark.parametrize("end", ["finish", "abort"])
    def test_the_end_gives_back_whatever_the_request_had(self, cache, end):
        page = cache.config.page_size
        key = self.key(cache, [1, 2, 3])
        table = admit(cache, key)
        compute(cache, table, key, 2 * page + 1)
        if end == "finish":
            cache.finish(table, key)
        else:
            cache.abort(table)
        assert table.closed
        land(cache)
        assert cache.flush()
        assert self.used(cache) == [0] * len(cache.config.components)

    def test_an_abort_leaves_nothing_to_be_matched(self, cache):
        key = self.key(cache, [1, 2])
        table = admit(cache, key)
        compute(cache, table, key, 2 * cache.config.page_size)
        cache.abort(table)
        assert cache.match(key).loadable_tokens == 0

    def test_nothing_is_forgotten_while_a_request_runs(self, cache):
        key = self.key(cache, [1, 2])
        table = admit(cache, key)
        compute(cache, table, key, 2 * cache.config.page_size)
        assert not cache.flush()
        assert cache.read(table, 2 * cache.config.page_size).full == key.prints()[:2]
        cache.abort(table)
        assert cache.flush()

    def test_a_receipt_is_taken_back_once(self, cache):
        lock = cache.lock(cache.match(self.key(cache, [1])), "r.admission")
        cache.unlock(lock)
        with pytest.raises(BrokenInvariant) as caught:
            cache.unlock(lock)
        assert caught.value.oracle == "L1"

    def test_an_admission_may_end_without_a_request(self, cache):
        serve(cache, self.key(cache, [1, 2]))
        match = cache.match(self.key(cache, [1, 2]))
        lock = cache.lock(match, "r.admission")
        cache.load_back(match, lock)
        cache.unlock(lock)
        land(cache)
        assert cache.flush()

    def test_room_that_is_free_costs_nothing(self, cache):
        serve(cache, self.key(cache, [1, 2]))
        before = self.used(cache)
        room = cache.make_room(Demand(1, 1))
        assert room.enough
        assert self.used(cache) == before

    def test_room_says_how_much_is_missing(self, cache):
        table = admit(cache, self.key(cache, [1]))
        compute(cache, table, self.key(cache, [1]), cache.config.page_size)
        capacity = cache.pool(Component.FULL, Tier.DEVICE).capacity
        room = cache.make_room(Demand(capacity))
        assert room.short[Component.FULL] == 1
        assert not room.enough

    def test_room_has_a_number_for_each_component(self, cache):
        page, width = cache.config.page_size, cache.config.width
        table = admit(cache, self.key(cache, [1]))
        rooms = [cache.extend(table, page), cache.extend(table, page), cache.make_room(Demand(1))]
        for room in rooms:
            assert len(room.short) == len(room.pending) == width

    def test_the_budget_is_what_is_free_or_could_be(self, cache):
        pool = cache.pool(Component.FULL, Tier.DEVICE)
        serve(cache, self.key(cache, [1, 2]))
        land(cache)
        assert cache.available(Component.FULL) == pool.capacity
        key = self.key(cache, [5, 6])
        table = admit(cache, key)
        compute(cache, table, key, 2 * cache.config.page_size)
        assert cache.available(Component.FULL) == pool.capacity - 2
        cache.abort(table)

    def used(self, cache: Cache) -> list[int]:
        return [cache.pool(c, Tier.DEVICE).used_slots for c in cache.config.components]
