"""A release made ready for a CPU: the few of its functions that need a GPU, replaced.

Everything else that runs is the release's own code, from the scheduler down to the host pools.
Each replacement below says what it stands for.
"""

import os
from array import array
from dataclasses import MISSING, fields, is_dataclass
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

from harness.targets.sglang import agreement
from harness.targets.sglang.device import Copy, Device, device_module
from harness.targets.sglang.eras import era_of
from harness.targets.sglang.loader import has, load, modules, upstream

VOCABULARY = 1 << 31

# Read by the release as it is imported.
ENVIRONMENT = {
    "SGLANG_ENABLE_UNIFIED_RADIX_TREE": "1",
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE": "1",
}


# Modules that the release itself imports late, where it has them.
EXTRA_MODULES = (
    "srt.mem_cache.unified_radix_cache",
    "srt.mem_cache.hybrid_cache.hybrid_cache_controller",
    "srt.mem_cache.hybrid_cache.hybrid_pool_assembler",
    "srt.mem_cache.swa_memory_pool",
)
OPTIONAL = ("enable_kvcache_transpose",)  # told only to those that name it


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
        logging.disable(logging.CRITICAL)
        self.version = version
        era = era_of(version)
        assert era is not None, f"no adapter knows sglang {version}"
        self.era = era
        os.environ["SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND"] = era.core
        load(folder, era.wheel)
        self._found: dict[str, Any] = {}
        self.scheduler: Any = upstream("srt.managers.scheduler")
        for name in EXTRA_MODULES:
            if has(name):
                upstream(name)
        self._replace()

    def find(self, name: str) -> Any:
        """A class or function of the release by its name, wherever this release keeps it."""
        if name not in self._found:
            for module in modules():
                value = vars(module).get(name)
                if getattr(value, "__module__", None) == module.__name__:
                    self._found[name] = value
                    break
            else:
                raise AssertionError(f"sglang {self.version} has no {name}")
        return self._found[name]

    def make(self, name: str, **told: Any) -> Any:
        """An object of the release's class; told only what this release's constructor knows."""
        kind = self.find(name)
        known = signature(kind.__init__).parameters
        takes_more = any(p.kind is p.VAR_KEYWORD for p in known.values())
        return kind(
            **{
                key: value
                for key, value in told.items()
                if key in known or (takes_more and key not in OPTIONAL)
            }
        )

    def _set(self, name: str, value: Any) -> None:
        """Put `value` in place of a name in every module that has it."""
        homes = [module for module in modules() if name in vars(module)]
        assert homes, f"sglang {self.version} has no {name}"
        for module in homes:
            setattr(module, name, value)

    def server_args(self, **told: Any) -> Any:
        """The release's own defaults for a launch, and what is told."""
        args_type = self.find("ServerArgs")
        args = _record(args_type, told)
        if has("srt.runtime_context"):
            upstream("srt.runtime_context").reset_context()
        upstream("srt.server_args").set_global_server_args_for_scheduler(args)
        if has("srt.runtime_context"):
            _one_rank(upstream("srt.runtime_context"))
        return args

    def allow_running(self, count: int) -> None:
        """So many requests may run at once, where the release reads that from its context: one,
        until this is called, as what is called a size there is stated to be one."""
        if has("srt.runtime_context"):
            context = upstream("srt.runtime_context")
            if "pp_max_micro_batch_size" in getattr(context, "_parallel_fields", tuple)():
                context.get_parallel().override_permanently(pp_max_micro_batch_size=count)

    def fresh(self) -> None:
        """Number nodes, moments and boundaries from the start, as a new process would."""
        self.number_from((0, 1))

    def numbers(self) -> tuple[int, int]:
        """Where a process has come to with them."""
        boundaries = self.find("next_component_uuid").__globals__
        return self.find("UnifiedTreeNode").counter, boundaries["_COMPONENT_UUID_COUNTER"]

    def number_from(self, numbers: tuple[int, int]) -> None:
        """Go on from there."""
        self.find("UnifiedTreeNode").counter = numbers[0]
        boundaries = self.find("next_component_uuid").__globals__
        boundaries["_COMPONENT_UUID_COUNTER"] = numbers[1]

    def request_of(self, rid: str, tokens: list[int], answer: int) -> Any:
        """A request as `Scheduler.handle_generate_request` makes it; it answers to the end."""
        params = self.find("SamplingParams")(
            max_new_tokens=answer, temperature=0.0, ignore_eos=True
        )
        params.normalize(None)
        req = self.find("Req")(rid, "", tokens, params, vocab_size=VOCABULARY)
        if isinstance(req.output_ids, array):  # token lists are arrays from 0.5.13 on
            ids = array(req.output_ids.typecode, tokens)
            req = self.find("Req")(rid, "", ids, params, vocab_size=VOCABULARY)
        return req

    def abort_of(self, rid: str) -> Any:
        """What the client's going away sends to the scheduler."""
        return SimpleNamespace(rid=rid, abort_all=False, abort_message=None, finished_reason=None)

    def result_of(self, tokens: list[int], done: Any) -> Any:
        """What a forward pass hands back: the next token of every request."""
        import torch

        kind = self.find("GenerationBatchResult")
        return kind(next_token_ids=torch.tensor(tokens), copy_done=done)

    def set_if_there(self, name: str, value: Any) -> None:
        """As `_set`, where this release has the name."""
        if any(name in vars(module) for module in modules()):
            self._set(name, value)

    def _replace(self) -> None:
        """All that needs a GPU, and printing."""
        self._set("device_module", device_module())  # events and streams of copies
        self._set("alloc_extend_kernel", _Kernel(_alloc_extend))  # page by page, as Triton does
        self._set("alloc_decode_kernel", _Kernel(_alloc_decode))
        self._set("SamplingBatchInfo", _Sampling)  # the world knows which token comes next
        self._set("HICACHE_HOST_MEMORY_RESERVE_BYTES", 0)  # these pools are tiny
        pinned = next(vars(m)["ALLOC_MEMORY_FUNCS"] for m in modules() if _has_pinned(m))
        pinned.clear()
        pinned.default_factory = lambda: _plain_memory  # no pinned host memory
        for pool, back_up, load_layer in (
            ("MHATokenToKVPoolHost", _back_up, _load_layer),
            ("MambaPoolHost", _back_up_states, _load_states),
        ):  # copy kernels: the fingerprints move when the stream runs
            kind = self.find(pool)
            kind.backup_from_device_all_layer = back_up
            kind.load_to_device_per_layer = load_layer
        # A cache of a search ends long before its process, which would keep it for good measure.
        self.set_if_there("atexit", SimpleNamespace(register=lambda f, *args, **more: f))
        agreement.install()  # process groups: ranks of one process agree
        self.find("UnifiedRadixCache").pretty_print = lambda cache: None  # the story tells it


def _has_pinned(module: Any) -> bool:
    return "ALLOC_MEMORY_FUNCS" in vars(module)


def _one_rank(context: Any) -> None:
    """State the ranks of a server of one, where the release reads them from its context."""
    fields = getattr(context, "_parallel_fields", None)
    if fields is not None:
        alone = SimpleNamespace(cpu_group=None, device_group=None, world_size=1, rank_in_group=0)
        kinds = {"_rank": 0, "_size": 1, "_group": alone}
        stated = {
            name: value
            for name in sorted(fields())
            for ending, value in kinds.items()
            if name.endswith(ending)
        }
        context.get_parallel().override_permanently(**stated)


def _record(kind: Any, told: dict[str, Any]) -> Any:
    """The arguments as the operator gave them, without the launch's checks of the machine."""
    if is_dataclass(kind):
        args: Any = object.__new__(cast(Any, kind))
        for name, value in {**_defaults(kind), **told}.items():
            _put(args, name, value)
        return args
    known = set(kind.__struct_fields__)  # from 0.5.19 on; what is resolved is read from the input
    args = kind(
        **{name: value for name, value in {"model_path": "", **told}.items() if name in known}
    )
    for name in told:
        if name not in known:
            setattr(args, name, told[name])
    args._resolution_finished = True
    return args


def _defaults(kind: Any) -> dict[str, Any]:
    """The fields of a dataclass and what they are unless told; None where that is nothing."""
    found = {}
    for item in fields(kind):
        value = item.default_factory() if item.default_factory is not MISSING else item.default
        found[item.name] = None if value is MISSING else value
    return found


def _put(record: Any, name: str, value: Any) -> None:
    object.__setattr__(record, name, value)


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


def _plain_memory(dims: Any, dtype: Any, **more: Any) -> Any:
    import torch

    return torch.zeros(dims, dtype=dtype)


def _back_up(
    pool: Any, device_pool: Any, host: Any, device: Any, io_backend: str, **more: Any
) -> None:
    host, device = host.long(), device.long()

    def work() -> None:
        prints_of(pool)[host] = device_pool.k_buffer[0][device, 0, 0]

    Device.current.issue("backup", work, Copy(_component(device_pool), True, host, device))


def _load_layer(
    pool: Any, device_pool: Any, host: Any, device: Any, layer: int, io: str, **more: Any
) -> None:
    host, device = host.long(), device.long()

    def work() -> None:
        device_pool.k_buffer[layer][device, 0, 0] = prints_of(pool)[host]

    Device.current.issue("load", work, Copy(_component(device_pool), False, host, device))


def _back_up_states(
    pool: Any, device_pool: Any, host: Any, device: Any, io_backend: str, **more: Any
) -> None:
    host, device = host.long(), device.long()

    def work() -> None:
        prints_of(pool)[host] = device_pool.mamba_cache.temporal[0, device, 0, 0, 0]

    Device.current.issue("backup", work, Copy("mamba", True, host, device))


def _load_states(
    pool: Any, device_pool: Any, host: Any, device: Any, layer: int, io: str, **more: Any
) -> None:
    host, device = host.long(), device.long()

    def work() -> None:
        device_pool.mamba_cache.temporal[layer, device, 0, 0, 0] = prints_of(pool)[host]

    Device.current.issue("load", work, Copy("mamba", False, host, device))


def prints_of(pool: Any) -> Any:
    """What a host pool holds, one fingerprint a slot, whatever its memory layout."""
    import torch

    if not hasattr(pool, "prints"):
        pool.prints = torch.zeros(pool.size, dtype=torch.int64)
    return pool.prints


def _component(device_pool: Any) -> str:
    """Which component a device pool holds: the world marks its pools."""
    return str(device_pool.component)
