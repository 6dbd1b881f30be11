"""Reads the state of a served world, between two of its segments."""

from dataclasses import replace

from cache.config import Component, Tier
from cache.contract import Cache
from cache.unified import UnifiedCache
from harness.engine.world import World
from harness.serve.meters import Meters, Pool, Served, Snapshot


def snapshot_of(
    world: World, meters: Meters, served: Served, *, open_requests: int, violations: int
) -> Snapshot:
    """Only the engine's thread may call this; what it returns is anybody's."""
    roster = world.scheduler.roster
    return Snapshot(
        now_s=world.kernel.now,
        page_size=world.cache.config.page_size,
        running=roster.running,
        queued=len(roster.queue) + len(roster.prefetching),
        open=open_requests,
        violations=violations,
        copies_in_flight=len(world.cache.transfers),
        pools=_pools(world.cache.ranks[0]),
        served=replace(served, ended=dict(served.ended)),
        loaded_tokens=meters.loaded_tokens,
        backed_up_tokens=meters.backed_up_tokens,
        prefetched_tokens=meters.prefetched_tokens,
        persisted_tokens=meters.persisted_tokens,
        evicted_tokens=dict(meters.evicted_tokens),
        host_evicted_tokens=meters.host_evicted_tokens,
    )


def _pools(cache: Cache) -> dict[tuple[Tier, Component], Pool]:
    config = cache.config
    found: dict[tuple[Tier, Component], Pool] = {}
    for tier in Tier if config.hierarchical else (Tier.DEVICE,):
        for component in config.components:
            if isinstance(cache, UnifiedCache):
                pool = cache.pools[tier, component]
                held = cache.residency.held_pages[tier, component]
                evictable = held - cache.residency.locked_pages[tier, component]
            elif tier is Tier.DEVICE:
                pool, evictable = cache.pool(component, tier), 0
            else:
                continue
            total = config.pools(component)[tier]
            found[tier, component] = Pool(total, total - pool.used_slots, evictable)
    return found
