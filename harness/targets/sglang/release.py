"""A release made ready for a CPU: the few of its functions that need a GPU, replaced.

Everything else that runs is the release's own code, from the scheduler down to the host pools.
Each replacement below says what it stands for.
"""

import os
from dataclasses import MISSING, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from harness.targets.sglang.device import Device, device_module
from harness.targets.sglang.loader import load, upstream

VOCABULARY = 1 << 31

# Read by the release as it is imported.
ENVIRONMENT = {
    "SGLANG_ENABLE_UNIFIED_RADIX_TREE": "1",
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE": "1",
}


class Release:
    """One release, imported and prepared; made once in a process."""

    _made: ClassVar["Release | None"] = None

    @classmethod
    def of(cls, folder: Path, version: str) -> "Release":
        """The release of this process."""
        if cls._made is None:
            cls._made = cls(folder, version)
        assert cls._made.version == version, "a process tortures one release only"
        return cls._made

    def __init__(self, folder: Path, version: str) -> None:
        import logging

        os.environ.update(ENVIRONMENT)
        load(folder, version)
        logging.disable(logging.CRITICAL)
        self.version = version
        self.scheduler: Any = upstream("srt.managers.scheduler")
        self.batches: Any = upstream("srt.managers.schedule_batch")
        self.device_pools: Any = upstream("srt.mem_cache.memory_pool")
        self.swa_pools: Any = upstream("srt.mem_cache.swa_memory_pool")
        self.allocators: Any = upstream("srt.mem_cache.allocator")
        self.host_pools: Any = upstream("srt.mem_cache.memory_pool_host")
        self.components: Any = upstream("srt.mem_cache.unified_cache_components.tree_component")
        self.tree: Any = upstream("srt.mem_cache.unified_radix_cache")
        self._replace_streams()
        self._replace_kernels()
        self._replace_copies()
        self._replace_sampling()
        self._replace_printing()

    def server_args(self, **told: Any) -> Any:
        """The release's own defaults for a launch, and what is told."""
        args_type = upstream("srt.server_args").ServerArgs
        args = object.__new__(args_type)
        for item in fields(args_type):
            value = item.default
            if item.default_factory is not MISSING:
                value = item.default_factory()
            object.__setattr__(args, item.name, None if value is MISSING else value)
        for name, value in told.items():
            object.__setattr__(args, name, value)
        upstream("srt.server_args").set_global_server_args_for_scheduler(args)
        return args

    def fresh(self) -> None:
        """Number nodes, moments and boundaries from the start, as a new process would."""
        self.tree.UnifiedTreeNode.counter = 0
        self.components._COMPONENT_UUID_COUNTER = 1

    def request_of(self, rid: str, tokens: list[int], answer: int) -> Any:
        """A request as `Scheduler.handle_generate_request` makes it; it answers to the end."""
        params = upstream("srt.sampling.sampling_params").SamplingParams(
            max_new_tokens=answer, temperature=0.0, ignore_eos=True
        )
        params.normalize(None)
        return self.batches.Req(rid, "", tokens, params, vocab_size=VOCABULARY)

    def abort_of(self, rid: str) -> Any:
        """What the client's going away sends to the scheduler."""
        return upstream("srt.managers.io_struct").AbortReq(rid=rid)

    def result_of(self, tokens: list[int], done: Any) -> Any:
        """What a forward pass hands back: the next token of every request."""
        import torch

        kind = upstream("srt.managers.utils").GenerationBatchResult
        return kind(next_token_ids=torch.tensor(tokens), copy_done=done)

    def _replace_streams(self) -> None:
        """Events and streams, of the copy controllers."""
        for name in ("srt.managers.cache_controller", "srt.mem_cache.hybrid_cache"):
            module = upstream(name)
            if hasattr(module, "device_module"):
                module.device_module = device_module()
        upstream(
            "srt.mem_cache.hybrid_cache.hybrid_cache_controller"
        ).device_module = device_module()

    def _replace_kernels(self) -> None:
        """The two Triton kernels of the paged allocator, page by page as they do it."""
        allocator = upstream("srt.mem_cache.allocator")
        allocator.alloc_extend_kernel = _Kernel(_alloc_extend)
        allocator.alloc_decode_kernel = _Kernel(_alloc_decode)

    def _replace_copies(self) -> None:
        """Copy kernels: the fingerprints move when the stream runs; and pinned host memory."""
        pools = self.host_pools
        pools.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0
        pools.ALLOC_MEMORY_FUNCS.clear()
        pools.ALLOC_MEMORY_FUNCS.default_factory = lambda: _plain_memory
        pools.MHATokenToKVPoolHost.backup_from_device_all_layer = _back_up
        pools.MHATokenToKVPoolHost.load_to_device_per_layer = _load_layer
        pools.MambaPoolHost.backup_from_device_all_layer = _back_up_states
        pools.MambaPoolHost.load_to_device_per_layer = _load_states

    def _replace_printing(self) -> None:
        """The tree that is printed before a crash; the story tells it."""
        self.tree.UnifiedRadixCache.pretty_print = lambda cache: None

    def _replace_sampling(self) -> None:
        """Sampling parameters of a batch; the world knows which token comes next."""
        self.batches.SamplingBatchInfo = _Sampling


class _Sampling:
    penalizer_orchestrator = SimpleNamespace(is_required=False)

    @classmethod
    def from_schedule_batch(cls, batch: Any, vocab_size: int) -> "_Sampling":
        return cls()

    def filter_batch(self, *args: Any) -> None: ...

    def merge_batch(self, other: Any) -> None: ...


class _Kernel:
    """Launched as `kernel[grid](...)`."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def __getitem__(self, grid: Any) -> Any:
        return self._run


def _alloc_extend(
    prefix_lens: Any, seq_lens: Any, last_loc: Any, free: Any, out: Any, *rest: int
) -> None:
    page_size = rest[-1]
    at = taken = 0
    pages = free.tolist()
    flat: list[int] = []
    for start, stop, last in zip(
        prefix_lens.tolist(), seq_lens.tolist(), last_loc.tolist(), strict=True
    ):
        slot = last
        for position in range(start, stop):
            if position % page_size == 0:
                if taken == len(pages):
                    return  # the caller counts pages and gives up
                slot = pages[taken] * page_size - 1
                taken += 1
            slot += 1
            flat.append(slot)
            at += 1
    out.copy_(out.new_tensor(flat))


def _alloc_decode(seq_lens: Any, last_loc: Any, free: Any, out: Any, *rest: int) -> None:
    page_size = rest[-1]
    pages = free.tolist()
    taken = 0
    for at, (length, last) in enumerate(zip(seq_lens.tolist(), last_loc.tolist(), strict=True)):
        if (length - 1) % page_size:
            out[at] = last + 1
        elif taken < len(pages):
            out[at] = pages[taken] * page_size
            taken += 1


def _plain_memory(dims: Any, dtype: Any, device: str, pin_memory: bool, allocator: Any) -> Any:
    import torch

    return torch.zeros(dims, dtype=dtype)


def _back_up(pool: Any, device_pool: Any, host: Any, device: Any, io_backend: str) -> None:
    host, device = host.long(), device.long()

    def work() -> None:
        for layer in range(pool.layer_num):
            pool.k_buffer[layer][host] = device_pool.k_buffer[layer][device]

    Device.current.issue("backup", work)


def _load_layer(
    pool: Any, device_pool: Any, host: Any, device: Any, layer: int, io_backend: str
) -> None:
    host, device = host.long(), device.long()

    def work() -> None:
        device_pool.k_buffer[layer][device] = pool.k_buffer[layer][host]

    Device.current.issue("load", work)


def _back_up_states(pool: Any, device_pool: Any, host: Any, device: Any, io_backend: str) -> None:
    host, device = host.long(), device.long()

    def work() -> None:
        pool.temporal_buffer[:, host] = device_pool.mamba_cache.temporal[:, device]

    Device.current.issue("backup", work)


def _load_states(
    pool: Any, device_pool: Any, host: Any, device: Any, layer: int, io_backend: str
) -> None:
    host, device = host.long(), device.long()

    def work() -> None:
        device_pool.mamba_cache.temporal[layer, device] = pool.temporal_buffer[layer, host]

    Device.current.issue("load", work)
