"""Ways to break a cache whose pages are on their way to and from storage; see test_audit."""

from cache import audit as audits
from cache.config import Component, Tier
from cache.unified import UnifiedCache
from tests.cache.builders import a_key, land, node_at, serve
from tests.cache.storage_builders import reply, with_storage

FULL, HOST = Component.FULL, Tier.HOST


def persisting() -> UnifiedCache:
    """[1 2] in storage only, and on its way back; [7 8] on its way to storage."""
    cache = with_storage(full=(12, 12))
    serve(cache, a_key([1, 2]))
    land(cache)
    reply(cache)
    assert cache.flush()
    assert cache.storage is not None
    prefetch = cache.storage.prefetch(a_key([1, 2]), "r")
    cache.storage.run(prefetch)
    cache.storage.acknowledge(prefetch)
    serve(cache, a_key([7, 8]))
    land(cache)
    return cache


def persist(cache: UnifiedCache):
    assert cache.storage is not None
    return cache.storage.persists.queue[0]


def fetching(cache: UnifiedCache):
    assert cache.storage is not None
    return next(iter(cache.storage.prefetches.live.values()))


STORAGE_BREAKS = {
    "a persist whose lock has gone": (
        "D1",
        "lock.persist",
        audits.storage_moves,
        lambda c: c.locks.release(persist(c).lock),
    ),
    "a persist whose source was given up": (
        "D1",
        "source.persist",
        audits.storage_moves,
        lambda c: node_at(c, [7, 8]).slots[HOST].__setitem__(FULL, None),
    ),
    "a node that waits for a persist that is not in flight": (
        "D2",
        "persisting",
        audits.storage_moves,
        lambda c: c.storage.persists.queue.clear(),
    ),
    "a slot that a prefetch has forgotten": (
        "O1",
        "owner.host_full",
        audits.ownership,
        lambda c: fetching(c).held[FULL].popitem(),
    ),
}
