"""Small caches, keys and whole requests, in a line each.

A page is named by one small number: page `7` holds the tokens 7, 7, ... so that a key reads like a
path in the tree.
"""

from collections.abc import Sequence

import numpy as np

from cache.config import CacheConfig, Companion, EvictionOrder, PoolPages, Tier, WritePolicy
from cache.contract import Cache, Commit, Demand
from cache.keys import Key
from cache.observer import Observer
from cache.table import PageTable
from cache.transfers import Copy
from cache.tree import Node
from cache.unified import UnifiedCache


def a_config(
    *,
    page: int = 2,
    full: tuple[int, int] = (8, 0),
    swa: tuple[int, int] | None = None,
    window: int = 0,
    mamba: tuple[int, int] | None = None,
    policy: WritePolicy = WritePolicy.WRITE_THROUGH,
    order: EvictionOrder = EvictionOrder.LRU,
    threshold: int = 0,
    companions: tuple[Companion, ...] = (),
) -> CacheConfig:
    """Pools are (device, host) slots; no host tier unless asked for."""
    return CacheConfig(
        page_size=page,
        full=PoolPages(*full),
        swa=None if swa is None else PoolPages(*swa),
        mamba=None if mamba is None else PoolPages(*mamba),
        window=window,
        write_policy=policy,
        device_eviction=order,
        host_eviction=order,
        load_back_threshold=threshold,
        companions=companions,
    )


def a_cache(observer: Observer | None = None, **settings: object) -> UnifiedCache:
    return UnifiedCache(a_config(**settings), observer)  # type: ignore[arg-type]


def a_key(pages: Sequence[int], page: int = 2, namespace: str = "", tail: int = 1) -> Key:
    """Those pages and `tail` more tokens, so that every page may be hit."""
    return Key(tokens_of(pages, page, tail), page, namespace)


def tokens_of(pages: Sequence[int], page: int, tail: int = 0) -> bytes:
    rest = np.full(tail, 99, "<i4")
    return np.repeat(np.asarray(pages, "<i4"), page).tobytes() + rest.tobytes()


def admit(cache: Cache, key: Key, holder: str = "r", priority: int = 0) -> PageTable:
    """match .. unlock in one go."""
    match = cache.match(key)
    admission = cache.lock(match, f"{holder}.admission")
    assert admission is not None
    cache.load_back(match, admission)
    table = cache.settle(match, admission, holder, priority)
    cache.unlock(admission)
    return table


def compute(cache: Cache, table: PageTable, key: Key, tokens: int) -> None:
    """Room for `tokens` tokens, and their KV."""
    assert cache.extend(table, tokens).enough
    cache.write(table, key.prints(), tokens)


def serve(cache: Cache, key: Key, holder: str = "r", priority: int = 0) -> Commit:
    """A whole request, which computes every page that a later match of `key` may hit. Copies that
    it needs land in between."""
    table = admit(cache, key, holder, priority)
    while any(copy.in_flight for copy in table.waits):
        land(cache, Tier.DEVICE)
    page_size = cache.config.page_size
    compute(cache, table, key, (key.tokens - 1) // page_size * page_size)
    return cache.finish(table, key)


def land(cache: Cache, *tiers: Tier) -> list[Copy]:
    """Run and acknowledge every copy in flight towards `tiers` (both by default), in order."""
    landed = []
    for tier in tiers or tuple(Tier):
        for rank in cache.ranks:
            while copy := rank.transfers.next_to_run(tier):
                rank.transfers.run(copy)
        while copy := cache.transfers.next_to_acknowledge(tier):
            cache.acknowledge(copy)
            landed.append(copy)
    return landed


def fail(cache: Cache, tier: Tier) -> Copy:
    """The oldest copy towards `tier` breaks and is acknowledged."""
    copy = cache.transfers.next_to_run(tier)
    assert copy is not None
    cache.transfers.break_off(copy)
    assert cache.transfers.next_to_acknowledge(tier) is copy
    cache.acknowledge(copy)
    return copy


def demote(cache: UnifiedCache) -> None:
    """Evict from the device whatever may go."""
    wanted = [0] * cache.config.width
    for component in cache.config.components:
        wanted[component] = cache.config.pools(component).device
    cache.make_room(Demand(*wanted))


def node_at(cache: UnifiedCache, pages: Sequence[int], namespace: str = "") -> Node:
    """The node that ends where `pages` end (splitting one if need be)."""
    size = cache.config.page_size
    path = cache.tree.walk(a_key(pages, size, namespace), len(pages) * size)
    assert path
    assert path[-1].end == len(pages) * size
    return path[-1]
