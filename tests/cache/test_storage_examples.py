"""The worked examples of docs/protocols/storage.md, performed: every number in its tables was seen
here."""

from cache.audit import audit
from cache.config import Component, PrefetchPolicy, Tier
from cache.contract import Demand
from cache.storage.memory import MemoryStorage
from cache.storage_moves import Prefetch
from tests.cache.builders import a_key, admit, demote, land, node_at, serve
from tests.cache.storage_builders import IDENTITY, ROOMY, reply, with_storage
from tests.cache.test_protocol_examples import Rows, rows_of, where

FULL, SWA, _ = Component


def test_storage_keeps_its_slots_and_its_anchor_until_it_has_replied():
    backend = MemoryStorage(IDENTITY, ROOMY)
    other = with_storage(backend=backend)
    serve(other, a_key([1, 2, 3, 4, 5]))
    land(other)
    reply(other)
    cache = with_storage(backend=backend, prefetch_policy=PrefetchPolicy.TIMEOUT)
    serve(cache, a_key([1]))
    land(cache)
    demote(cache)
    reply(cache)
    storage, anchor, key, rows = cache.storage, node_at(cache, [1]), a_key([1, 2, 3, 4, 5]), Rows()
    assert storage is not None
    asked: list[Prefetch] = []

    def see() -> None:
        free = str(cache.pool(FULL, Tier.HOST).free_slots)
        loadable = str(cache.match(key).loadable_tokens)
        phase = asked[0].phase.value if asked else "-"
        rows.append((str(anchor.locks[Tier.HOST][FULL]), phase, free, loadable))
        assert audit(cache) == []

    see()
    asked.append(storage.prefetch(key, "request"))
    (prefetch,) = asked
    see()
    storage.run(prefetch)
    see()
    storage.acknowledge(prefetch)
    see()
    serve(cache, a_key([7, 8, 9]))
    land(cache)
    see()
    storage.run(prefetch)
    see()
    assert not storage.may_go_on(prefetch, 1.0)
    assert storage.may_go_on(prefetch, 1.1)
    storage.conclude(prefetch)
    see()
    storage.run(prefetch)
    see()
    storage.acknowledge(prefetch)
    see()
    table = admit(cache, key, "request")
    see()
    land(cache)
    assert cache.read(table, 6).full == key.prints()[:3]
    assert rows == rows_of("storage.md")


def test_a_lost_window_comes_back_to_both_halves_of_a_node_that_was_split_meanwhile():
    cache = with_storage(full=(12, 12), swa=(12, 2), window=4, batch=1)
    key, rows = a_key([1, 2]), Rows()
    storage, asked = cache.storage, list[Prefetch]()
    assert storage is not None

    def see() -> None:
        second = node_at(cache, [1, 2])
        first = second.parent if second.start else second
        assert first is not None
        windows = [where(node, SWA) for node in (first, second)]
        locks = str(second.locks[Tier.HOST][SWA])
        phase = asked[0].phase.value if asked else "-"
        other = where(node_at(cache, [7, 8]), SWA)
        rows.append((*windows, other, locks, phase, str(cache.match(key).loadable_tokens)))
        assert audit(cache) == []

    for served in (a_key([7, 8]), key):
        serve(cache, served)
        land(cache)
        reply(cache)
    see()
    cache.make_room(Demand(0, 12))
    land(cache)
    see()
    asked.append(storage.prefetch(key, "request"))
    (prefetch,) = asked
    see()
    storage.run(prefetch)
    see()
    storage.acknowledge(prefetch)
    see()
    cache.match(a_key([1, 9]))
    see()
    storage.run(prefetch)
    see()
    storage.run(prefetch)
    see()
    storage.acknowledge(prefetch)
    see()
    table = admit(cache, key, "request")
    see()
    land(cache)
    assert cache.read(table, 4).swa == key.prints()[:2]
    see()
    assert rows == rows_of("storage.md", 1)
