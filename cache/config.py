"""The settings of a cache: its components, pools, window and policies.

One frozen record travels from the command line to the cache, so that a run can be repeated from
what its `run.json` says. Invariant: a `CacheConfig` that exists is valid; whatever cannot work is
refused when it is built, with one line that says what to type.
"""

import enum
from dataclasses import dataclass
from typing import NamedTuple


class ConfigError(ValueError):
    """A setting that cannot work. The message is one line and says what to type instead."""


class Tier(enum.IntEnum):
    """Where a copy lives."""

    DEVICE = 0
    HOST = 1


class Component(enum.IntEnum):
    """Which part of a token's state a slot holds."""

    FULL = 0
    SWA = 1
    MAMBA = 2


# Looking up a member by its class costs more than what hot paths do with it.
DEVICE, HOST = Tier
FULL, SWA, MAMBA = Component

COMPONENT_SETS = {  # by whether SWA and MAMBA are there
    (False, False): (FULL,),
    (True, False): (FULL, SWA),
    (False, True): (FULL, MAMBA),
    (True, True): (FULL, SWA, MAMBA),
}

# Of its own a request has the state that it computes with and the one that it keeps for the tree.
STATES_OF_A_REQUEST = 2


class WritePolicy(enum.StrEnum):
    """When a node is backed up: on insert, on its second hit, or when it is evicted."""

    WRITE_THROUGH = "write_through"
    WRITE_THROUGH_SELECTIVE = "write_through_selective"
    WRITE_BACK = "write_back"


class EvictionOrder(enum.StrEnum):
    """Which unlocked node goes first: least recent, least often used, or lowest priority."""

    LRU = "lru"
    LFU = "lfu"
    PRIORITY = "priority"


class PrefetchPolicy(enum.StrEnum):
    """How long a request waits for its prefetch: not at all, until it is over, or so long."""

    BEST_EFFORT = "best_effort"
    WAIT_COMPLETE = "wait_complete"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """How a cache uses its storage tier. Raises `ConfigError` when built from what cannot work.

    `prefetch_threshold` counts tokens: for less nothing is fetched; `batch_pages` is what one
    question to storage asks for. `timeout` waits `prefetch_timeout_base_s` seconds and
    `prefetch_timeout_per_ki_token_s` for each 1,024 tokens that could come.
    """

    prefetch_policy: PrefetchPolicy = PrefetchPolicy.BEST_EFFORT
    prefetch_threshold: int = 256
    batch_pages: int = 32
    prefetch_timeout_base_s: float = 1.0
    prefetch_timeout_per_ki_token_s: float = 0.25

    def __post_init__(self) -> None:
        if self.prefetch_threshold < 0:
            raise ConfigError(
                f"the prefetch threshold must be 0 or more tokens, not {self.prefetch_threshold}"
            )
        if self.batch_pages < 1:
            raise ConfigError(f"a batch needs 1 page or more, not {self.batch_pages}")
        if self.prefetch_timeout_base_s < 0 or self.prefetch_timeout_per_ki_token_s < 0:
            raise ConfigError("prefetch timeouts must be 0 or more seconds")


class PoolPages(NamedTuple):
    """Slots of one component on either tier; `host` 0 means that there is no host tier."""

    device: int
    host: int


DEFAULT_POOL = PoolPages(device=1024, host=1024)


@dataclass(frozen=True, slots=True)
class Companion:
    """What belongs to every slot of a component and goes wherever it goes: the scales of a page,
    an indexer's keys, a draft model's KV, the side state of a recurrent state.

    `slot_bytes` counts its bytes for one slot of its `owner` on one rank. `pools` None: it lies
    under its owner's slot numbers; else it has slots of its own. `apart`: in storage it is an
    object of its own, which may be there or not; else it travels inside its owner's.
    """

    name: str
    owner: Component
    slot_bytes: int = 1
    pools: PoolPages | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Everything a cache must be told. Raises `ConfigError` when built from what cannot work.

    `page_size`, `window` and `load_back_threshold` count tokens, pools count slots (one slot holds
    one page of FULL or SWA, or one recurrent state), `page_bytes` is indexed by `Component` and
    counts the bytes of one slot on one rank. `swa` or `mamba` None means that the component is
    absent; without SWA `window` is 0. What `companions` have in bytes comes on top of `page_bytes`.
    """

    page_size: int = 64
    full: PoolPages = DEFAULT_POOL
    swa: PoolPages | None = None
    window: int = 0
    write_policy: WritePolicy = WritePolicy.WRITE_THROUGH_SELECTIVE
    device_eviction: EvictionOrder = EvictionOrder.LRU
    host_eviction: EvictionOrder = EvictionOrder.LRU
    load_back_threshold: int = 0
    page_bytes: tuple[int, ...] = (1, 1, 1)
    storage: StorageConfig | None = None
    mamba: PoolPages | None = None
    companions: tuple[Companion, ...] = ()

    def __post_init__(self) -> None:
        if self.page_size < 1:
            raise ConfigError(f"--page-size must be 1 or more, not {self.page_size}")
        if self.load_back_threshold < 0:
            raise ConfigError(
                f"the load-back threshold must be 0 or more tokens, not {self.load_back_threshold}"
            )
        if self.storage is not None and not self.hierarchical:
            raise ConfigError(
                "storage needs a host tier: raise --hicache-ratio, or leave"
                " --hicache-storage-backend out"
            )
        self._check_companions()
        self._check_window()
        self._check_states()
        for component in self.components:
            self._check_pool(component)
        if len(self.page_bytes) < self.width or min(self.page_bytes) < 0:
            raise ConfigError(
                f"page bytes need one number, 0 or more, for each of {self.width} components,"
                f" not {self.page_bytes}"
            )

    @property
    def components(self) -> tuple[Component, ...]:
        """The components that are there, FULL first."""
        return COMPONENT_SETS[self.swa is not None, self.mamba is not None]

    @property
    def width(self) -> int:
        """The length of whatever is indexed by `Component`: up to the last one that is there. One
        that is absent in between has nothing everywhere."""
        return self.components[-1] + 1

    @property
    def hierarchical(self) -> bool:
        """Whether there is a host tier."""
        return self.full.host > 0

    @property
    def window_pages(self) -> int:
        """Pages that a window touches when it ends on a page boundary; 0 without SWA."""
        return -(-self.window // self.page_size)

    def pools(self, component: Component) -> PoolPages:
        """The pools of a component that is there: as many slots as it and those of its companions
        that have their own can fill together, for no slot is of use without its companions."""
        pools = (self.full, self.swa, self.mamba)[component]
        assert pools is not None, f"{component.name} is not a component of this cache"
        for companion in self.companions:
            if companion.owner is component and companion.pools is not None:
                pools = PoolPages(*map(min, pools, companion.pools))
        return pools

    def companions_of(self, component: Component) -> tuple[Companion, ...]:
        return tuple(c for c in self.companions if c.owner is component)

    @property
    def slot_bytes(self) -> tuple[int, ...]:
        """By component, what moves with one slot: its own bytes and its companions'."""
        return tuple(
            own + sum(c.slot_bytes for c in self.companions if c.owner == component)
            for component, own in enumerate(self.page_bytes)
        )

    def slots(self, component: Component, tokens: int) -> int:
        """How many slots a node of `tokens` tokens takes: one for each page, or the one state that
        it has at its end."""
        return 1 if component is MAMBA else tokens // self.page_size

    def _check_companions(self) -> None:
        names = [companion.name for companion in self.companions]
        if len(set(names)) != len(names):
            raise ConfigError(f"companions need names of their own: {', '.join(names)}")
        for companion in self.companions:
            if not companion.name.isidentifier():
                raise ConfigError(f"a companion's name is a word, not {companion.name!r}")
            if companion.owner not in self.components:
                raise ConfigError(
                    f"companion {companion.name} belongs to {companion.owner.name}, which this"
                    " cache has not: leave it out of --companions"
                )
            if companion.slot_bytes < 0:
                raise ConfigError(f"companion {companion.name} has {companion.slot_bytes} bytes")

    def _check_window(self) -> None:
        if self.swa is None:
            if self.window:
                raise ConfigError(
                    f"a window of {self.window} tokens needs the SWA component: --components"
                    " full,swa"
                )
        elif self.window < 1:
            raise ConfigError(
                "the SWA component needs a model with a sliding window; this one has none:"
                " --components full"
            )
        elif self.pools(SWA).device < self.window_pages:
            raise ConfigError(
                f"{self.pools(SWA).device} SWA slots hold no window of {self.window_pages} pages:"
                " raise --device-pages or --swa-full-tokens-ratio"
            )

    def _check_states(self) -> None:
        """Below its minimum a request could never begin beside the state that it starts from."""
        if self.mamba is not None and self.pools(MAMBA).device < STATES_OF_A_REQUEST:
            raise ConfigError(
                f"{self.pools(MAMBA).device} state slots let no request run:"
                f" raise --max-mamba-cache-size to {STATES_OF_A_REQUEST} or more"
            )

    def _check_pool(self, component: Component) -> None:
        pools = self.pools(component)
        if pools.device < 1:
            raise ConfigError(
                f"the {component.name} pool needs 1 device slot or more, not {pools.device}:"
                " raise --device-pages"
            )
        if pools.host < 0 or (pools.host > 0) != self.hierarchical:
            raise ConfigError(
                f"the {component.name} pool has {pools.host} host slots: every component needs 1"
                " or more (raise --hicache-ratio), or none (--disable-hierarchical-cache)"
            )
