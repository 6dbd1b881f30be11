"""Storage (L3) in memory: the release's own file backend, over a dict instead of a file system.

How pages are batched, counted and looked up is `HiCacheFile` of the release; only what it asks of
its file system is answered here. Pages hold the fingerprints that lie in the host pools.

Invariant: a page that is kept is never changed; it may be lost.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.targets.sglang.baton import Baton
from harness.targets.sglang.loader import has, modules, upstream
from harness.targets.sglang.release import Release, prints_of
from harness.targets.sglang.workers import Site, Worker, halt, install

Prints = NDArray[np.int64]
BATCH = 128  # pages that a release moves in one call of its storage
# What the controller asks of its process groups, to name what it stores: one rank of its own store.
RANKS = {
    "get_tensor_model_parallel_rank": 0,
    "get_tensor_model_parallel_world_size": 1,
    "get_pipeline_model_parallel_rank": 0,
    "get_pipeline_model_parallel_world_size": 1,
}
ALONE = SimpleNamespace(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1)
NATIVE_HASH = "srt.mem_cache.cpp_utils.native_hash"  # compiled as it is first asked
HOST_POOLS = ("MHATokenToKVPoolHost", "MambaPoolHost")


class Page(NamedTuple):
    """A page of a host pool that storage is about to fill, or to read."""

    pool: Any
    slots: Prints
    fills: bool


class Storage:
    """What is kept, by key. `on_page` is told before a page moves, `on_kept` before one is kept;
    `draw(label, bound)` chooses what goes wrong, 0 where nothing does."""

    def __init__(self) -> None:
        self.pages: dict[str, Prints] = {}
        self.on_page: Callable[[Page], None] = lambda page: None
        self.on_kept: Callable[[str, Prints], None] = lambda key, prints: None
        self.draw: Callable[[str, int], int] = lambda label, bound: 0
        self.kept = 0  # pages that this server has put in

    def put(self, key: str, prints: Prints) -> bool:
        """Whether it is kept; what is there already stays."""
        self.on_kept(key, prints)
        if key in self.pages:
            return True
        if self.draw("storage.refuse", 8) == 7:
            return False
        self.pages[key] = prints
        self.kept += 1
        return True

    def lose(self, keys: Sequence[str]) -> None:
        """Perhaps one of these is gone since it was looked up: others make room in it, too."""
        if self.draw("storage.lose", 8) == 7:
            self.pages.pop(keys[self.draw("storage.which", len(keys))], None)


def prepare(release: Release, batch: int) -> None:
    """Let servers of this release be built with storage, `batch` pages in a call; the rest of the
    release stays as it is."""
    for module in _batched(release):
        vars(module)["STORAGE_BATCH_SIZE"] = batch


@lru_cache(maxsize=1)
def _batched(release: Release) -> list[Any]:
    """Prepare the release once; its modules that count pages of a call."""
    homes = modules()
    install(homes)
    _state_ranks()
    if has(NATIVE_HASH):
        native = SimpleNamespace(get_hash=hash_of)
        vars(upstream(NATIVE_HASH))["_load_native_hash_module"] = lambda: native
    factory = upstream("srt.mem_cache.storage.backend_factory").StorageBackendFactory
    kind = _backend(release)
    factory._registry["file"]["loader"] = lambda: kind
    for name in HOST_POOLS:
        pool = release.find(name)
        pool.get_dummy_flat_data_page = _blank_page
        pool.get_data_page = _read_page
        pool.set_from_flat_data_page = _fill_page
    return [module for module in homes if "STORAGE_BATCH_SIZE" in vars(module)]


def hash_of(
    raw: Any, count: int, width: int, bigram: bool, prior: bytes | None, page_size: int | None
) -> str | list[str]:
    """What the release's C++ extension computes, without a compiler: SHA-256 over the hash before
    and the tokens, four bytes each; a hash for each page where a page size is told."""
    assert (width, bigram) == (1, False), "no speculative decoding here"
    data = np.asarray(raw[:count], dtype="<u4").tobytes()
    size = 4 * page_size if page_size else max(len(data), 1)
    hashes = []
    for start in range(0, len(data), size) if page_size else (0,):
        prior = sha256((prior or b"") + data[start : start + size]).digest()
        hashes.append(prior.hex())
    return hashes if page_size else hashes[0]


def _state_ranks() -> None:
    """In the controller's module alone, where its context does not state them."""
    controller = vars(upstream("srt.managers.cache_controller"))
    for name, value in RANKS.items():
        if name in controller:
            controller[name] = partial(int, value)
    context = upstream("srt.runtime_context") if has("srt.runtime_context") else None
    if "get_parallel" in controller and not hasattr(context, "_parallel_fields"):
        controller["get_parallel"] = lambda: ALONE


def chain(release: Release, tokens: Sequence[int], page_size: int) -> Iterator[str]:
    """The keys of a prefix's whole pages, as the release computes them."""
    make, key = upstream("srt.mem_cache.utils").get_hash_str, None
    for start in range(0, len(tokens) - page_size + 1, page_size):
        key = make([int(token) for token in tokens[start : start + page_size]], key)
        yield key


def _backend(release: Release) -> Any:
    base: Any = release.find("HiCacheFile")

    class Kept(base):  # type: ignore[misc]
        """`HiCacheFile` with a dict for its folder; what it calls of its own stays."""

        def __init__(self, storage_config: Any, *more: Any) -> None:
            self.store: Storage = Site.current.storage
            self.config_suffix = self.tp_config_suffix = ""  # a store of its own for every rank
            self.metadata_cache = None

        def get(self, key: str, target_location: Any, target_sizes: Any = None) -> Any:
            page = self.store.pages.get(key)
            if page is None:
                return None
            target_location.numpy()[:] = page
            return target_location

        def set(self, key: str, value: Any = None, *more: Any, **named: Any) -> bool:
            return self.store.put(key, value.numpy().copy())

        def exists(self, key: str) -> bool:
            return key in self.store.pages

        def _collect_existing_component_keys(
            self, keys: list[str], pool_transfers: Any = None
        ) -> Any:
            pools = [None, *(transfer.name for transfer in pool_transfers or [])]
            found = {self._get_component_key(key, pool) for pool in pools for key in keys}
            return {f"{key}.bin" for key in found if key in self.store.pages}

        def batch_exists(self, keys: list[str], *more: Any, **named: Any) -> Any:
            halt("ask")
            return super().batch_exists(keys, *more, **named)

        def batch_exists_v2(self, keys: list[str], *more: Any, **named: Any) -> Any:
            halt("ask")
            return super().batch_exists_v2(keys, *more, **named)

        def batch_get(self, keys: list[str], *more: Any, **named: Any) -> Any:
            halt("read")
            self.store.lose(keys)
            return super().batch_get(keys, *more, **named)

        def batch_get_v2(self, transfers: Any, *more: Any, **named: Any) -> Any:
            halt("read")
            for transfer in transfers:
                if transfer.keys:
                    self.store.lose([self._log_key(transfer.name, key) for key in transfer.keys])
            return super().batch_get_v2(transfers, *more, **named)

        def batch_set(self, keys: list[str], *more: Any, **named: Any) -> Any:
            halt("write")
            return super().batch_set(keys, *more, **named)

        def batch_set_v2(self, transfers: Any, *more: Any, **named: Any) -> Any:
            halt("write")
            return super().batch_set_v2(transfers, *more, **named)

    return Kept


def _told(pool: Any, first: Any, *, fills: bool) -> slice:
    """The slots of a page that begins there."""
    size = int(getattr(pool, "page_size", 1) or 1)
    at = int(first)
    worker = Baton.current
    assert isinstance(worker, Worker), "pages move on the controller's threads"
    worker.site.storage.on_page(Page(pool, np.arange(at, at + size), fills))
    return slice(at, at + size)


def _blank_page(pool: Any) -> Any:
    import torch

    return torch.zeros(int(getattr(pool, "page_size", 1) or 1), dtype=torch.int64)


def _read_page(pool: Any, index: Any, flat: bool = True) -> Any:
    return prints_of(pool)[_told(pool, index, fills=False)].clone()


def _fill_page(pool: Any, index: Any, data_page: Any) -> None:
    prints_of(pool)[_told(pool, index, fills=True)] = data_page
