"""What a soak can be told; the names are the command line's flags.

Invariant: `run.json` holds every field, so a run can be typed again from it.
"""

from dataclasses import dataclass
from math import inf
from typing import Literal

Oracles = Literal["every", "sampled", "off"]
# Operations between two audits of everything; what changed is checked at every one of them.
AUDIT_EVERY: dict[Oracles, int] = {"every": 2_000, "sampled": 20_000, "off": 0}
STEP_LIMIT = 10**12  # no run comes so far
DEFAULT_TRACE = "mooncake_conversation_1000.jsonl"
DEFAULT_TRACE_SCALE = 2.0  # at its own speed it asks for twice what the default server can do


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Which requests, how many, and when."""

    trace: str = DEFAULT_TRACE
    trace_format: str = "auto"
    block_size: int | None = None  # None: as the trace or its format says
    workload: str = ""  # a synthetic family instead of a trace
    set: tuple[tuple[str, str], ...] = ()  # its parameters
    seed: int = 42
    num_requests: int | None = None
    duration_s: float = inf
    arrival: str = ""  # "": the trace's own times, or Poisson when there is a rate
    request_rate: float | None = None  # requests/s
    burstiness: float = 1.0
    burst_size: int = 8
    shrink: int = 1  # prompts, answers and blocks of the trace are so many times shorter
    time_scale: float | None = None  # None: 1, or DEFAULT_TRACE_SCALE for the bundled trace
    spread_bucket: bool = False
    max_concurrency: int | None = None
    warmup_requests: int = 0
    lenient: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The server: model, machine, cache. Lengths in tokens."""

    model: str = "gemma-4-31B-it"
    hardware: str = "H200"
    tp: int = 2
    compute: str = "roofline"
    device: str = ""  # of the model compute; "": cuda where there is one, else cpu
    decoding: str = "trace"
    check_logits: float = 0.05
    context_length: int = 32768
    kv_cache_dtype: str = "fp8_e4m3"
    mem_fraction_static: float = 0.85
    page_size: int = 64
    device_pages: int | None = None
    components: tuple[str, ...] = ()  # (): those of the model
    swa_full_tokens_ratio: float = 0.8
    mamba_full_memory_ratio: float = 0.9
    max_mamba_cache_size: int | None = None
    mamba_ssm_dtype: str = "float32"
    companions: tuple[str, ...] = ()
    hierarchical: bool = True
    radix_cache: bool = True
    hicache_ratio: float = 1.0
    hicache_size: float = 0.0  # GB per rank; 0: by ratio
    hicache_write_policy: str = "write_through_selective"
    hicache_io_backend: str = "kernel"
    hicache_mem_layout: str = "page_first"
    load_back_overlap: str = ""  # "": layer for a model on the wall clock, else none
    radix_eviction_policy: str = "lru"
    host_eviction_policy: str = "lru"
    load_back_threshold: int = 0
    hicache_storage_backend: str = ""  # "": no storage
    hicache_storage_prefetch_policy: str = "best_effort"
    prefetch_threshold: int = 256
    prefetch_batch_pages: int = 32
    prefetch_timeout_base: float = 1.0  # s
    prefetch_timeout_per_ki_token: float = 0.25  # s
    storage_path: str = ""  # a folder or a URL; "": a folder of the run
    storage_size: float = 256.0  # GB of KV per rank
    storage_read_bandwidth: float = 6.0  # GB/s
    storage_write_bandwidth: float = 3.0  # GB/s
    storage_latency: float = 100.0  # us
    storage_troubles: int = 0  # seed of a plan of (time, kind); 0: none
    chunked_prefill_size: int = 8192
    max_running_requests: int = 256
    schedule_conservativeness: float = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """What is checked while it runs, and where the results go."""

    clock: str = "virtual"
    oracles: Oracles = "sampled"
    output_dir: str = "results"
    tag: str = "soak"
