"""The state of the world at one moment, under the names of the time series."""

from collections.abc import Callable, Mapping
from contextlib import suppress

import psutil

from cache.config import Tier
from cache.contract import Cache
from cache.transfers import CopyState
from cache.unified import UnifiedCache
from harness.engine.job import Job
from harness.engine.traffic import Traffic
from harness.engine.world import World
from harness.ranks.party import Party


class Gauges:
    """Hit rates are over the interval since the sample before; NaN where nothing was admitted.
    `memory` tells of tensors, where there are some."""

    def __init__(
        self,
        world: World,
        traffic: Traffic,
        memory: Callable[[], Mapping[str, float]] | None = None,
    ) -> None:
        self._world = world
        self._traffic = traffic
        self._memory = memory
        self._process = psutil.Process()
        self._seen = (0, 0, 0, 0)
        self.peak_rss_bytes = 0
        self.prompt_tokens = 0
        self.device_tokens = 0
        self.host_tokens = 0
        self.storage_tokens = 0

    def admitted(self, job: Job) -> None:
        self.prompt_tokens += job.prompt_len
        self.device_tokens += job.device_tokens
        self.host_tokens += job.host_tokens
        self.storage_tokens += job.storage_tokens

    def rss_bytes(self) -> int:
        rss: int = self._process.memory_info().rss
        self.peak_rss_bytes = max(self.peak_rss_bytes, rss)
        return rss

    def shared(self, party: Party) -> dict[str, float]:
        """What the ranks, which are processes, are together, and how far from each other. All of
        them ask at the same step."""
        mine = {"ran": _ran(self._world.cache), "rss": self.rss_bytes(), "pss": self._pss_bytes()}
        found = party.together(mine)
        return {
            "ranks_copies_apart": max(found["ran"]) - min(found["ran"]),
            "ranks_rss_bytes": sum(found["rss"]),
            "ranks_pss_bytes": sum(found["pss"]) if all(found["pss"]) else float("nan"),
        }

    def _pss_bytes(self) -> int:
        """0 where the system does not tell."""
        with suppress(psutil.AccessDenied, OSError, AttributeError):
            return int(self._process.memory_full_info().pss)
        return 0

    def read(self, violations: int) -> Mapping[str, float]:
        world, used = self._world, self._traffic.used_bytes
        scheduler = world.scheduler
        device, host, storage = self._interval_rates()
        return {
            **_pools(world.cache),
            "device_used_bytes": used[Tier.DEVICE],
            "host_used_bytes": used[Tier.HOST],
            "queue_requests": len(scheduler.roster.queue),
            "running_requests": scheduler.roster.running,
            "batch_tokens": scheduler.forward.batch_tokens,
            "hit_rate_device": device,
            "hit_rate_host": host,
            "copies_in_flight": len(world.cache.transfers),
            "rss_bytes": self.rss_bytes(),
            "violations": violations,
            **_storage(world.cache, storage),
            **_apart(world.cache),
            **self._tensors(),
        }

    def _tensors(self) -> dict[str, float]:
        """Where bytes are real: what tensors take, and this process's share of its pages."""
        if self._memory is None:
            return {}
        found = dict(self._memory())
        if pss_bytes := self._pss_bytes():
            found["pss_bytes"] = pss_bytes
        return found

    def _interval_rates(self) -> tuple[float, ...]:
        now = (self.prompt_tokens, self.device_tokens, self.host_tokens, self.storage_tokens)
        prompts, *hits = (a - b for a, b in zip(now, self._seen, strict=True))
        self._seen = now
        return tuple(hit / prompts if prompts else float("nan") for hit in hits)


def _storage(cache: Cache, hit_rate: float) -> dict[str, float]:
    storage = cache.storage
    if storage is None:
        return {}
    return {
        "hit_rate_storage": hit_rate,
        "storage_used_pages": storage.backend.usage().pages,
        "storage_moves_in_flight": len(storage),
    }


def _apart(cache: Cache) -> dict[str, float]:
    """How far the ranks are from each other; nothing where there is one."""
    if len(cache.ranks) == 1:
        return {}
    ran = [_ran(rank) for rank in cache.ranks]
    found: dict[str, float] = {"ranks_copies_apart": max(ran) - min(ran)}
    if cache.storage is not None:
        tiers = [rank.storage for rank in cache.ranks if rank.storage is not None]
        lines = zip(*(tier.line() for tier in tiers), strict=True)
        apart = (len({move.outstanding for move in moves}) > 1 for moves in lines)
        found["ranks_replies_apart"] = sum(apart)
    return found


def _ran(cache: Cache) -> int:
    """Copies in flight that have run, of the first rank here."""
    queues = cache.ranks[0].transfers.queues.values()
    return sum(copy.state is not CopyState.QUEUED for queue in queues for copy in queue)


def _pools(cache: Cache) -> dict[str, float]:
    """Of the first rank: the others decide alike."""
    cache = cache.ranks[0]
    if not isinstance(cache, UnifiedCache):
        return {
            f"device_{component.name.lower()}_used_pages": cache.pool(component, 0).used_slots
            for component in cache.config.components
        }
    found: dict[str, float] = {}
    tiers = tuple(Tier) if cache.config.hierarchical else (Tier.DEVICE,)
    for tier in tiers:
        for component in cache.config.components:
            name = f"{tier.name.lower()}_{component.name.lower()}"
            held = cache.residency.held_pages[tier, component]
            locked = cache.residency.locked_pages[tier, component]
            found[f"{name}_used_pages"] = cache.pools[tier, component].used_slots
            found[f"{name}_locked_pages"] = locked
            found[f"{name}_evictable_pages"] = held - locked
            for beside in cache.pools[tier, component].companions:
                pool = beside.pool or cache.pools[tier, component]
                found[f"{tier.name.lower()}_{beside.name}_used_pages"] = pool.used_slots
    return found
