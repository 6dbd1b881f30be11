"""A small cache with a storage tier, and storage that replies when a test says so."""

from cache.config import CacheConfig, PoolPages, PrefetchPolicy, StorageConfig, WritePolicy
from cache.observer import Observer
from cache.storage.memory import MemoryStorage
from cache.storage.naming import identity_of
from cache.storage_moves import Move, Prefetch
from cache.unified import UnifiedCache
from tests.cache.builders import a_config

IDENTITY = identity_of(model="small")
ROOMY = 1 << 20


def with_storage(
    observer: Observer | None = None,
    *,
    backend: MemoryStorage | None = None,
    prefetch_policy: PrefetchPolicy = PrefetchPolicy.WAIT_COMPLETE,
    prefetch_threshold: int = 0,
    batch: int = 2,
    **settings: object,
) -> UnifiedCache:
    """Pages of 2 tokens, 8 device and 8 host slots unless told otherwise."""
    plain = a_config(**{"full": (8, 8), **settings})  # type: ignore[arg-type]
    config = CacheConfig(
        page_size=plain.page_size,
        full=PoolPages(*plain.full),
        swa=plain.swa,
        mamba=plain.mamba,
        window=plain.window,
        write_policy=WritePolicy(plain.write_policy),
        device_eviction=plain.device_eviction,
        host_eviction=plain.host_eviction,
        storage=StorageConfig(prefetch_policy, prefetch_threshold, batch),
        companions=plain.companions,
    )
    return UnifiedCache(
        config, observer, backend=backend or MemoryStorage(IDENTITY, ROOMY), identity=IDENTITY
    )


def reply(cache: UnifiedCache) -> list[Move]:
    """Storage replies to everything, and the scheduler takes note, until nothing is under way."""
    storage = cache.storage
    assert storage is not None
    over: list[Move] = []
    while len(storage):
        for move in storage.outstanding():
            storage.run(move)
        for move in storage.replied():
            storage.acknowledge(move)
            if not move.in_flight:
                over.append(move)
    return over


def fetch(cache: UnifiedCache, key: object, holder: str = "r") -> Prefetch:
    """A prefetch from its first question to its end."""
    assert cache.storage is not None
    prefetch = cache.storage.prefetch(key, holder)  # type: ignore[arg-type]
    reply(cache)
    return prefetch
