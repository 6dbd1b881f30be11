"""Which model computes, how it answers, and how much of it is checked."""

from dataclasses import dataclass, replace

from cache.companions import CompanionStoreMaker
from cache.config import CacheConfig, Companion, Component, ConfigError, Tier
from cache.layout import Layout
from cache.model import KvDtype, ModelShape
from cache.stores import Store, StoreMaker
from harness.device.memory import NoMemory, granted
from harness.device.movers import mover_of
from harness.engine.hardware import IoBackend
from harness.model.sampling import Decoding
from harness.model.shard import WHOLE, Shard
from harness.model.store import companion_shape, companion_store_maker, page_shape, store_maker
from harness.model.weights import check_shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """`check_logits` is the share of requests that N1 recomputes. Raises `ConfigError`."""

    shape: ModelShape
    dtype: KvDtype
    host_layout: Layout
    device: str
    decoding: Decoding
    check_logits: float
    seed: int
    io_backend: IoBackend = IoBackend.KERNEL
    shard: Shard = WHOLE
    first_token: int = 0  # of those that an answer may have

    def __post_init__(self) -> None:
        check_shape(self.shape)
        self.shard.part(self.shape)
        if not 0 <= self.check_logits <= 1:
            raise ConfigError(
                f"--check-logits is a share of all requests, 0 to 1, not {self.check_logits}"
            )

    @property
    def content(self) -> str:
        """What its pages hold, by which storage tells them from those of other models."""
        return f"{self.dtype} of seed {self.seed} and {self.shape!r}"

    @property
    def part(self) -> ModelShape:
        """What this rank computes of `shape`."""
        return self.shard.part(self.shape)

    def sized(self, config: CacheConfig) -> CacheConfig:
        """With what a slot and its companions really take, fingerprints and scales included."""
        found = [0] * len(config.page_bytes)
        for component in config.components:
            found[component] = page_shape(self.part, config, component, self.dtype).page_bytes
        beside = tuple(
            replace(c, slot_bytes=companion_shape(self.part, config, c, self.dtype).page_bytes)
            for c in config.companions
        )
        return replace(config, page_bytes=tuple(found), companions=beside)

    def stores(self, config: CacheConfig) -> StoreMaker:
        """Raises `ConfigError` where the memory of a pool is refused."""
        make = store_maker(
            self.part,
            config,
            self.dtype,
            device=self.device,
            host_layout=self.host_layout,
            mover=mover_of(self.io_backend, self.device),
        )

        def made(tier: Tier, component: Component, capacity: int) -> Store:
            size = capacity * config.page_bytes[component]
            return _had(granted(lambda: make(tier, component, capacity), tier, component, size))

        return made

    def companion_stores(self, config: CacheConfig) -> CompanionStoreMaker:
        """Raises `ConfigError` as `stores` does."""
        make = companion_store_maker(
            self.part, config, self.dtype, device=self.device, host_layout=self.host_layout
        )

        def made(tier: Tier, beside: Companion, capacity: int) -> Store:
            size = capacity * beside.slot_bytes
            return _had(granted(lambda: make(tier, beside, capacity), tier, beside.owner, size))

        return made


def _had(found: Store | NoMemory) -> Store:
    if isinstance(found, NoMemory):
        raise ConfigError(f"{found.sentence()}: lower --device-pages or --hicache-ratio")
    return found
