"""From settings to the things a soak is made of. Everything that a user can get wrong is found
here, before anything is written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isinf
from pathlib import Path
from typing import TYPE_CHECKING

from cache.config import CacheConfig, Component, ConfigError, EvictionOrder, WritePolicy
from cache.layout import Layout
from cache.model import KvDtype, ModelShape, StateDtype
from cache.shapes import load_shape
from harness.engine.clients import Load
from harness.engine.compute import Compute, NullCompute, RooflineCompute
from harness.engine.hardware import IoBackend, load_hardware
from harness.engine.overlap import Overlap
from harness.engine.scheduler import Limits
from harness.engine.sizing import Sizing, size_pools
from harness.soak.choice import choice
from harness.soak.settings import DEFAULT_TRACE, DEFAULT_TRACE_SCALE, Serving, Traffic
from harness.soak.storage import FINGERPRINTS, StoragePlan, plan_storage, storage_settings
from workloads.arrivals import Arrivals, Burst, Constant, Gamma, Poisson, reschedule
from workloads.bundled import bundled_trace
from workloads.errors import WorkloadError
from workloads.request import Workload
from workloads.synthetic import build
from workloads.traces import formats
from workloads.traces.recorded import Reading, RecordedTrace

if TYPE_CHECKING:  # it imports torch, which takes a second, and most plans compute nothing
    from harness.model.plan import ModelPlan

MATCH_S = 40e-6  # scheduler time of one admission; `make bench` measures a 29k-token match


@dataclass(frozen=True, slots=True)
class ServerPlan:
    shape: ModelShape
    sizing: Sizing
    config: CacheConfig
    compute: Compute
    limits: Limits
    storage: StoragePlan | None
    ranks: int = 1
    model: ModelPlan | None = None


@dataclass(frozen=True, slots=True)
class TrafficPlan:
    workload: Workload
    load: Load
    arrivals: str  # in words, for the report


def plan_server(
    serving: Serving,
    *,
    clock: str = "virtual",
    seed: int = 42,
    rank: int = 0,
    first_token: int = 0,
) -> ServerPlan:
    """`seed` is that of the model's weights, `first_token` the first that an answer of it may have;
    `rank` is which of the ranks this process is, where they are processes. Raises `ConfigError` in
    one line that says what to type."""
    shape = load_shape(serving.model)
    hardware = load_hardware(serving.hardware)
    dtype = choice(KvDtype, serving.kv_cache_dtype, "--kv-cache-dtype")
    if serving.context_length > shape.max_context:
        raise ConfigError(
            f"--context-length {serving.context_length} is more than {shape.name} was made for:"
            f" at most {shape.max_context}"
        )
    if serving.hicache_size < 0:
        raise ConfigError(f"--hicache-size must be 0 or more GB, not {serving.hicache_size}")
    sizing = size_pools(
        shape,
        hardware,
        tp=serving.tp,
        kv_dtype=dtype,
        mem_fraction_static=serving.mem_fraction_static,
        page_size=serving.page_size,
        context_length=serving.context_length,
        hicache_ratio=serving.hicache_ratio if serving.hierarchical else None,
        hicache_size_gb=serving.hicache_size or None if serving.hierarchical else None,
        device_pages=serving.device_pages,
        components=_components(serving.components),
        swa_full_tokens_ratio=serving.swa_full_tokens_ratio,
        mamba_full_memory_ratio=serving.mamba_full_memory_ratio,
        max_mamba_cache_size=serving.max_mamba_cache_size,
        state_dtype=choice(StateDtype, serving.mamba_ssm_dtype, "--mamba-ssm-dtype"),
        companions=serving.companions,
    )
    config = replace(
        sizing.config,
        write_policy=choice(WritePolicy, serving.hicache_write_policy, "--hicache-write-policy"),
        device_eviction=choice(
            EvictionOrder, serving.radix_eviction_policy, "--radix-eviction-policy"
        ),
        host_eviction=choice(EvictionOrder, serving.host_eviction_policy, "--host-eviction-policy"),
        load_back_threshold=serving.load_back_threshold,
        storage=storage_settings(serving),
    )
    model = _model(serving, shape, dtype, seed, clock=clock, rank=rank)
    if model is not None:
        model = replace(model, first_token=first_token)
        config = model.sized(config)
        _check_memory(config, model.device, serving.tp)
    compute = _compute(serving, shape, dtype, clock)
    storage = plan_storage(serving, config, FINGERPRINTS if model is None else model.content)
    limits = _limits(serving, clock)
    return ServerPlan(shape, sizing, config, compute, limits, storage, serving.tp, model)


def plan_traffic(traffic: Traffic) -> TrafficPlan:
    """Raises `WorkloadError` in one line that says what to type."""
    if traffic.num_requests is not None and traffic.num_requests < 1:
        raise WorkloadError(f"--num-requests must be 1 or more, not {traffic.num_requests}")
    if not traffic.duration_s > 0:
        raise WorkloadError(f"--duration must be above 0, such as 10m, not {traffic.duration_s}s")
    if traffic.max_concurrency is not None and traffic.max_concurrency < 1:
        raise WorkloadError(f"--max-concurrency must be 1 or more, not {traffic.max_concurrency}")
    workload: Workload
    if traffic.workload:
        workload = build(traffic.workload, {"seed": traffic.seed, **dict(traffic.set)})
    else:
        workload = read_trace(traffic)
    arrivals = _arrivals(traffic)
    words = "the times of the trace" if not traffic.workload else "the times of the workload"
    scale = time_scale_of(traffic)
    if scale != 1.0:
        words += f", times {scale:g}"
    if traffic.spread_bucket:
        words += ", spread inside their grid"
    if arrivals is not None:
        workload, words = reschedule(workload, arrivals, traffic.seed), str(arrivals)
    load = Load(
        num_requests=traffic.num_requests,
        duration_s=traffic.duration_s,
        max_concurrency=traffic.max_concurrency,
    )
    return TrafficPlan(workload, load, words)


def time_scale_of(traffic: Traffic) -> float:
    """What the trace's times are multiplied by; a workload's never are."""
    if traffic.workload:
        return 1.0
    if traffic.time_scale is not None:
        return traffic.time_scale
    return DEFAULT_TRACE_SCALE if traffic.trace == DEFAULT_TRACE else 1.0


def read_trace(traffic: Traffic) -> RecordedTrace:
    """The trace, of whatever format; the bundled one by its name. Raises `WorkloadError`."""
    path = Path(traffic.trace)
    if traffic.trace == DEFAULT_TRACE and not path.is_file():
        path = bundled_trace(traffic.trace)
    how = Reading(
        block_size=traffic.block_size,
        time_scale=time_scale_of(traffic),
        shrink=traffic.shrink,
        spread_seed=traffic.seed if traffic.spread_bucket else None,
        lenient=traffic.lenient,
    )
    return formats.read_trace(path, how, format_name=traffic.trace_format)


def _arrivals(traffic: Traffic) -> Arrivals | None:
    rate = traffic.request_rate
    kind = traffic.arrival or ("poisson" if rate is not None else "trace")
    if kind == "trace":
        if rate is not None:
            raise WorkloadError("--request-rate needs --arrival poisson, constant, gamma or burst")
        return None
    if rate is None:
        raise WorkloadError(f"--arrival {kind} needs --request-rate, such as --request-rate 4")
    if isinf(rate):
        return Constant(inf)
    match kind:
        case "poisson":
            return Poisson(rate)
        case "constant":
            return Constant(rate)
        case "gamma":
            return Gamma(rate, traffic.burstiness)
        case "burst":
            return Burst(traffic.burst_size, traffic.burst_size / rate if rate else 0.0)
    raise WorkloadError(
        f"--arrival {kind!r} is not known: use trace, poisson, constant, gamma or burst"
    )


def _components(names: tuple[str, ...]) -> tuple[Component, ...] | None:
    if not names:
        return None
    known = {component.name.lower(): component for component in Component}
    for name in names:
        if name not in known:
            raise ConfigError(f"--components {name!r} is not known: use full, swa, mamba")
    return tuple(sorted({known[name] for name in names}))


def _model(
    serving: Serving, shape: ModelShape, dtype: KvDtype, seed: int, *, clock: str, rank: int
) -> ModelPlan | None:
    """What computes, if something does."""
    if serving.compute != "model":
        return None
    if serving.tp != 1 and clock != "wall":
        raise ConfigError(
            "--compute model runs ranks as processes, which takes a wall clock: add --clock wall,"
            " or --tp 1"
        )
    if not serving.radix_cache:
        raise ConfigError("--compute model needs the radix cache: drop --disable-radix-cache")
    if serving.mamba_ssm_dtype != "float32":
        raise ConfigError("--compute model keeps states in float32: drop --mamba-ssm-dtype")
    from harness.model.plan import ModelPlan
    from harness.model.sampling import Decoding
    from harness.model.shard import Shard

    return ModelPlan(
        shape=shape,
        dtype=dtype,
        host_layout=choice(Layout, serving.hicache_mem_layout, "--hicache-mem-layout"),
        io_backend=choice(IoBackend, serving.hicache_io_backend, "--hicache-io-backend"),
        device=_device(serving.device, rank, serving.tp),
        decoding=choice(Decoding, serving.decoding, "--decoding"),
        check_logits=serving.check_logits,
        seed=seed,
        shard=Shard(rank, serving.tp),
    )


def _check_memory(config: CacheConfig, device: str, ranks: int) -> None:
    from harness.device.memory import lacking_memory

    slot_bytes = {component: config.slot_bytes[component] for component in config.components}
    if (lacking := lacking_memory(config, slot_bytes, device, ranks)) is not None:
        raise ConfigError(f"{lacking.sentence()}: lower --device-pages or --hicache-ratio")


def _device(name: str, rank: int, ranks: int) -> str:
    """A GPU for each rank, where there are GPUs."""
    import torch

    there = torch.cuda.is_available()
    name = name or ("cuda" if there else "cpu")
    if name not in ("cpu", "cuda"):
        raise ConfigError(f"--device {name!r} is not known: use cpu or cuda")
    if name == "cuda" and not there:
        raise ConfigError("there is no CUDA device here: use --device cpu")
    if name == "cpu" or ranks == 1:
        return name
    if torch.cuda.device_count() < ranks:
        raise ConfigError(
            f"--tp {ranks} takes as many GPUs, and there are {torch.cuda.device_count()}: use"
            " --device cpu"
        )
    return f"{name}:{rank}"


def _compute(serving: Serving, shape: ModelShape, dtype: KvDtype, clock: str) -> Compute:
    """What takes how long; on the wall clock a model takes what it takes."""
    if serving.compute == "null" or (serving.compute == "model" and clock == "wall"):
        return NullCompute()
    if serving.compute not in ("roofline", "model"):
        raise ConfigError(
            f"--compute {serving.compute!r} is not known: use roofline, null or model"
        )
    return RooflineCompute(
        shape,
        load_hardware(serving.hardware),
        tp=serving.tp,
        kv_dtype=dtype,
        page_size=serving.page_size,
        io_backend=choice(IoBackend, serving.hicache_io_backend, "--hicache-io-backend"),
        mem_layout=choice(Layout, serving.hicache_mem_layout, "--hicache-mem-layout"),
        state_dtype=choice(StateDtype, serving.mamba_ssm_dtype, "--mamba-ssm-dtype"),
    )


def _limits(serving: Serving, clock: str) -> Limits:
    for flag, value in (
        ("--chunked-prefill-size", serving.chunked_prefill_size),
        ("--max-running-requests", serving.max_running_requests),
        ("--context-length", serving.context_length),
    ):
        if value < 1:
            raise ConfigError(f"{flag} must be 1 or more, not {value}")
    if serving.chunked_prefill_size < serving.page_size:
        raise ConfigError(
            f"--chunked-prefill-size {serving.chunked_prefill_size} is less than a page of"
            f" {serving.page_size} tokens: raise it or lower --page-size"
        )
    return Limits(
        context_length=serving.context_length,
        chunked_prefill_size=serving.chunked_prefill_size,
        max_running_requests=serving.max_running_requests,
        new_token_ratio=serving.schedule_conservativeness,
        match_s=MATCH_S if serving.compute != "null" and clock == "virtual" else 0.0,
        overlap=overlap_of(serving, clock),
    )


def overlap_of(serving: Serving, clock: str) -> Overlap:
    """Raises `ConfigError` where it is neither of the two."""
    if serving.load_back_overlap:
        return choice(Overlap, serving.load_back_overlap, "--load-back-overlap")
    return Overlap.LAYER if serving.compute == "model" and clock == "wall" else Overlap.NONE
