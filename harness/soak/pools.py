"""The pools of a cache, as a run's manifest lists them."""

from cache.config import CacheConfig, Tier
from harness.record.manifest import Pool


def pools_of(config: CacheConfig) -> tuple[Pool, ...]:
    """Tier by tier, each component and behind them what lies beside their slots: a companion
    without pools of its own has as many slots as its owner."""
    found = []
    for tier in Tier:
        rows = [(c.name.lower(), config.pools(c), config.page_bytes[c]) for c in config.components]
        rows += [
            (c.name, c.pools or config.pools(c.owner), c.slot_bytes) for c in config.companions
        ]
        found += [Pool(tier.name.lower(), n, p[tier], size) for n, p, size in rows if p[tier]]
    return tuple(found)
