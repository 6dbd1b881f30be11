"""The backends by the names that the command line gives them."""

from pathlib import Path

from cache.config import ConfigError
from cache.storage.contract import Storage
from cache.storage.files import FileStorage
from cache.storage.memory import MemoryStorage

BACKENDS = ("file", "redis", "memory")


def open_storage(backend: str, where: str, identity: bytes, capacity_bytes: int) -> Storage:
    """`where` is a folder for `file`, a URL for `redis`, nothing for `memory`. Raises `ConfigError`
    in one line that says what to type."""
    match backend:
        case "file":
            try:
                return FileStorage(Path(where), identity, capacity_bytes)
            except OSError as error:
                raise ConfigError(
                    f"the storage folder {where} cannot be used ({error.strerror}): name another"
                ) from None
        case "redis":
            # Only who asks for Redis needs its client.
            from cache.storage.redis import RedisStorage

            try:
                return RedisStorage(where, identity, capacity_bytes)
            except ValueError as error:
                raise ConfigError(f"the storage address {where!r}: {error}") from None
        case "memory":
            return MemoryStorage(identity, capacity_bytes)
    raise ConfigError(f"no storage backend {backend!r}: use {', '.join(BACKENDS)}")
