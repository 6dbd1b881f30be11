"""What the metrics of a server count, from what the cache and the door tell.

Tokens are counted as SGLang counts them: of full attention, whole pages. Invariant: every number
only grows, except across a flush, which counts as no eviction.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cache.config import CacheConfig, Component, Tier
from cache.observer import Observer
from cache.storage_moves import Persist, Prefetch
from cache.transfers import Copy, CopyState
from cache.tree import Node
from harness.engine.job import Job, JobStatus


@dataclass(slots=True)
class Served:
    """Sums over requests that have ended."""

    ended: dict[JobStatus, int] = field(default_factory=lambda: dict.fromkeys(JobStatus, 0))
    prompt_tokens: int = 0
    output_tokens: int = 0
    device_tokens: int = 0
    host_tokens: int = 0
    storage_tokens: int = 0

    def add(self, job: Job) -> None:
        assert job.status is not None
        self.ended[job.status] += 1
        if job.status is JobStatus.REJECTED:
            return
        self.output_tokens += job.generated
        if job.first_token_s >= 0:  # else it never came to read its hit
            self.prompt_tokens += job.prompt_len
            self.device_tokens += job.device_tokens
            self.host_tokens += job.host_tokens
            self.storage_tokens += job.storage_tokens


class Meters(Observer):
    """Copies, moves and evictions."""

    def __init__(self, config: CacheConfig) -> None:
        self._page_size = config.page_size
        self.flushing = False
        self.loaded_tokens = 0
        self.backed_up_tokens = 0
        self.prefetched_tokens = 0
        self.persisted_tokens = 0
        self.evicted_tokens = dict.fromkeys(config.components, 0)
        self.host_evicted_tokens = 0

    def acknowledged(self, copy: Copy) -> None:
        if copy.state is not CopyState.DONE or isinstance(copy, Prefetch):
            return
        pages = sum(len(p.target) for p in copy.parts if p.component is Component.FULL)
        if copy.target is Tier.DEVICE:
            self.loaded_tokens += pages * self._page_size
        else:
            self.backed_up_tokens += pages * self._page_size

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        if self.flushing:
            return
        if tier is Tier.DEVICE:
            self.evicted_tokens[component] += 1 if component is Component.MAMBA else node.tokens
        elif component is Component.FULL:
            self.host_evicted_tokens += node.tokens

    def persisted(self, persist: Persist) -> None:
        """Of FULL, what storage took; `stored` counts pages in the order of the sources."""
        left = persist.stored
        for source in persist.sources:
            taken = min(left, len(source.slots))
            left -= taken
            if source.strand.number == Component.FULL:
                self.persisted_tokens += taken * self._page_size

    def prefetch_ended(self, prefetch: Prefetch) -> None:
        self.prefetched_tokens += prefetch.brought(prefetch.grafted_end)


@dataclass(frozen=True, slots=True)
class Pool:
    """Slots of one component on one tier: pages, of which `held` are cached and unlocked."""

    total: int
    free: int
    evictable: int

    @property
    def used(self) -> int:
        return self.total - self.free - self.evictable


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The engine between two of its segments. Tokens, requests and seconds."""

    now_s: float
    page_size: int
    running: int
    queued: int
    open: int
    violations: int
    copies_in_flight: int
    pools: Mapping[tuple[Tier, Component], Pool]
    served: Served
    loaded_tokens: int
    backed_up_tokens: int
    prefetched_tokens: int
    persisted_tokens: int
    evicted_tokens: Mapping[Component, int]
    host_evicted_tokens: int
