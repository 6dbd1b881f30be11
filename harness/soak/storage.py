"""The storage of a soak, from its flags: which backend, how large, how fast, in what trouble."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cache.config import CacheConfig, Component, ConfigError, PrefetchPolicy, StorageConfig
from cache.storage.backends import BACKENDS, open_storage
from cache.storage.contract import Storage
from cache.storage.frame import HEADER_BYTES
from cache.storage.memory import MemoryStorage
from cache.storage.naming import identity_of
from harness.engine.storage_streams import StorageLink
from harness.engine.troubles import TroubledStorage, TroublePlan
from harness.soak.choice import choice
from harness.soak.settings import Serving

FINGERPRINTS = "fingerprints"  # all there is to a page
STORED_BYTES = HEADER_BYTES + 8  # of such a page


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """`capacity_bytes` is what all ranks together may keep. Where slots hold fingerprints it is
    what the size asked for comes to in FULL pages; every stored page, of any rank, counts as one.
    """

    backend: str
    path: str
    identity: bytes
    capacity_bytes: int
    link: StorageLink
    troubles: TroublePlan | None

    def open(self, folder: Path) -> Storage:
        """`folder` is where a file backend goes that was given no path. Raises `ConfigError`."""
        where = self.path or (str(folder) if self.backend == "file" else "")
        return open_storage(self.backend, where, self.identity, self.capacity_bytes)


def storage_settings(serving: Serving) -> StorageConfig | None:
    """Raises `ConfigError` in one line that says what to type."""
    policy = choice(
        PrefetchPolicy,
        serving.hicache_storage_prefetch_policy,
        "--hicache-storage-prefetch-policy",
    )
    if not serving.hicache_storage_backend:
        return None
    if not serving.hierarchical or not serving.radix_cache:
        raise ConfigError(
            "--hicache-storage-backend needs the host tier: drop --disable-hierarchical-cache and"
            " --disable-radix-cache"
        )
    return StorageConfig(
        prefetch_policy=policy,
        prefetch_threshold=serving.prefetch_threshold,
        batch_pages=serving.prefetch_batch_pages,
        prefetch_timeout_base_s=serving.prefetch_timeout_base,
        prefetch_timeout_per_ki_token_s=serving.prefetch_timeout_per_ki_token,
    )


def plan_storage(serving: Serving, config: CacheConfig, content: str) -> StoragePlan | None:
    """None without storage. `content` names what is in a page beside its name, FINGERPRINTS where
    that is nothing. Raises `ConfigError`."""
    backend = serving.hicache_storage_backend
    if not backend:
        return None
    if backend not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise ConfigError(f"--hicache-storage-backend {backend!r} is not known: use {known}")
    for flag, value in (
        ("--storage-size", serving.storage_size),
        ("--storage-read-bandwidth", serving.storage_read_bandwidth),
        ("--storage-write-bandwidth", serving.storage_write_bandwidth),
    ):
        if value <= 0:
            raise ConfigError(f"{flag} must be above 0, not {value}")
    if serving.storage_latency < 0:
        raise ConfigError(f"--storage-latency must be 0 or more, not {serving.storage_latency}")
    if backend == "redis" and not serving.storage_path:
        raise ConfigError("--hicache-storage-backend redis needs --storage-path redis://HOST:PORT")
    if serving.storage_troubles and backend != "memory":
        raise ConfigError("--storage-troubles needs --hicache-storage-backend memory")
    return StoragePlan(
        backend=backend,
        path=serving.storage_path,
        identity=identity_of(
            model=serving.model,
            kv_dtype=serving.kv_cache_dtype,
            page_size=serving.page_size,
            tp=serving.tp,
            companions=",".join(serving.companions),
            content=content,
        ),
        capacity_bytes=_capacity_bytes(serving, config, content),
        link=StorageLink(
            read_bandwidth=serving.storage_read_bandwidth * 1e9,
            write_bandwidth=serving.storage_write_bandwidth * 1e9,
            latency_s=serving.storage_latency / 1e6,
        ),
        troubles=TroublePlan(serving.storage_troubles) if serving.storage_troubles else None,
    )


def _capacity_bytes(serving: Serving, config: CacheConfig, content: str) -> int:
    size = serving.tp * serving.storage_size * 1e9
    if content != FINGERPRINTS:
        return int(size)
    return int(size / config.slot_bytes[Component.FULL]) * STORED_BYTES


def troubled(storage: Storage, plan: TroublePlan, now: Callable[[], float]) -> Storage:
    """The same storage, in trouble when the plan says so."""
    assert isinstance(storage, MemoryStorage)
    return TroubledStorage(storage, lambda: plan.at(now()))
