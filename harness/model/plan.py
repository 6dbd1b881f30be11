"""Which model computes, how it answers, and how much of it is checked."""

from dataclasses import dataclass

from cache.config import CacheConfig, ConfigError
from cache.layout import Layout
from cache.model import KvDtype, ModelShape
from cache.stores import StoreMaker
from harness.device.movers import mover_of
from harness.engine.hardware import IoBackend
from harness.model.sampling import Decoding
from harness.model.shard import WHOLE, Shard
from harness.model.store import page_shape, store_maker
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

    def page_bytes(self, config: CacheConfig) -> tuple[int, ...]:
        """What a slot really takes, fingerprints and scales included, by component."""
        found = [0] * len(config.page_bytes)
        for component in config.components:
            found[component] = page_shape(self.part, config, component, self.dtype).page_bytes
        return tuple(found)

    def stores(self, config: CacheConfig) -> StoreMaker:
        return store_maker(
            self.part,
            config,
            self.dtype,
            device=self.device,
            host_layout=self.host_layout,
            mover=mover_of(self.io_backend, self.device),
        )
