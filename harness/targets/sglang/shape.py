"""The sizes of a small server, and its pools, all of the release's own classes."""

from types import SimpleNamespace
from typing import Any, NamedTuple

from harness.targets.sglang.release import Release


class Shape(NamedTuple):
    """Sizes in tokens (`states` in recurrent states, `running` in requests)."""

    page_size: int
    full: int
    swa: int  # 0 without a window
    window: int
    states: int  # 0 without a recurrent component
    ratio: float  # host tokens for a device token; 0 without a host tier
    policy: str
    chunk: int
    prefill: int
    running: int
    context: int
    overlap: bool
    mixed: bool
    schedule_policy: str
    storage: str = ""  # its backend, "" without storage
    prefetch: str = "best_effort"
    threshold: int = 1  # tokens that are worth a prefetch
    batch: int = 128  # pages in one call of the storage

    @property
    def hierarchical(self) -> bool:
        return self.ratio > 0


class Pools(NamedTuple):
    """What a model worker hands to the scheduler; `full`, `swa` and `states` hold what is cached,
    one row of fingerprints each (None where the component is absent)."""

    rows: Any
    allocator: Any
    full: Any
    swa: Any
    states: Any


def build_pools(release: Release, shape: Shape) -> Pools:
    """Fresh pools, as `ModelRunner.init_memory_pool` makes them: every fingerprint is 0."""
    import torch

    common = {"device": "cpu", "dtype": torch.int64}
    tensors = {"head_num": 1, "head_dim": 1}
    make = release.make
    rows = _rows(release, shape)
    page = shape.page_size
    if shape.window:
        kv = make(
            "SWAKVPool",
            size=shape.full,
            size_swa=shape.swa,
            page_size=page,
            swa_attention_layer_ids=[1],
            full_attention_layer_ids=[0],
            enable_kvcache_transpose=False,
            **common,
            **tensors,
        )
        allocator = make(
            "SWATokenToKVPoolAllocator",
            size=shape.full,
            size_swa=shape.swa,
            page_size=page,
            kvcache=kv,
            need_sort=False,
            **common,
        )
        states = rows.mamba_pool if shape.states else None
        return Pools(rows, allocator, kv.full_kv_pool, kv.swa_kv_pool, states)
    if shape.states:
        kv = make(
            "HybridLinearKVPool",
            size=shape.full,
            page_size=page,
            full_attention_layer_ids=[0],
            enable_kvcache_transpose=False,
            mamba_pool=rows.mamba_pool,
            **common,
            **tensors,
        )
        return Pools(rows, _allocator(release, shape, kv), kv.full_kv_pool, None, rows.mamba_pool)
    kv = make(
        "MHATokenToKVPool",
        size=shape.full,
        page_size=page,
        layer_num=1,
        enable_memory_saver=False,
        **common,
        **tensors,
    )
    return Pools(rows, _allocator(release, shape, kv), kv, None, None)


def _allocator(release: Release, shape: Shape, kv: Any) -> Any:
    import torch

    paged = shape.page_size > 1
    return release.make(
        "PagedTokenToKVPoolAllocator" if paged else "TokenToKVPoolAllocator",
        size=shape.full,
        page_size=shape.page_size,
        dtype=torch.int64,
        device="cpu",
        kvcache=kv,
        need_sort=False,
    )


def _rows(release: Release, shape: Shape) -> Any:
    """The table of requests' slots, with the recurrent states where there are any."""
    import torch

    plain = {
        "size": shape.running,
        "max_context_len": shape.context,
        "device": "cpu",
        "enable_memory_saver": False,
    }
    if not shape.states:
        return release.make("ReqToTokenPool", **plain)
    kinds = SimpleNamespace(conv=torch.int64, temporal=torch.int64)
    layer = 2 if shape.window else 1  # behind those that attend
    sizes = SimpleNamespace(conv=[(1, 1)], temporal=(1, 1, 1))
    return release.make(
        "HybridReqToTokenPool",
        mamba_size=shape.states,
        mamba_spec_state_size=shape.running,
        cache_params=SimpleNamespace(shape=sizes, dtype=kinds, layers=[layer]),
        mamba_layer_ids=[layer],
        enable_mamba_extra_buffer=False,
        enable_overlap_schedule=shape.overlap,
        **plain,
    )
