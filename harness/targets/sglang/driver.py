"""A release's own scheduler with a world around it instead of a server.

The driver *is* `Scheduler` of the release (`srt/managers/scheduler.py`), made without its server:
what it admits, chunks, finishes, retracts, aborts, polls and evicts, and in which order, is decided
by the release's own methods. Only what surrounds them is the world's: the event loop is told step
by step (`World`), the model's forward pass moves fingerprints, and answers go to the world.

Invariant: the cache is called by the release's code alone.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from harness.targets.sglang.device import Device, Stream
from harness.targets.sglang.release import VOCABULARY, Release
from harness.targets.sglang.shape import Pools, Shape, build_pools


class Absent:
    """What the scheduler asks for and this world has not: no feature, no number, no member."""

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Any:
        return iter(())

    def __call__(self, *args: Any, **kwargs: Any) -> "Absent":
        return self

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return self


ABSENT = Absent()


def make_scheduler(
    release: Release, shape: Shape, on_answer: Callable[[Any], None]
) -> tuple[Any, Pools]:
    """A scheduler over a fresh cache of `shape`. `on_answer(req)` is called for every request that
    ended, whichever way."""
    release.fresh()
    Device.current = Device.default
    pools = build_pools(release, shape)
    pools.full.component = "full"
    if pools.swa is not None:
        pools.swa.component = "swa"
    scheduler = object.__new__(_scheduler_type(release.scheduler.Scheduler))
    scheduler.asked_for = set()
    _settings(scheduler, release, shape, pools)
    scheduler.on_answer = on_answer
    # As `Scheduler.__init__` does, in its order; the parts that open sockets are left out.
    scheduler.init_cache_with_memory_pool()
    scheduler.init_running_status()
    scheduler.init_chunked_prefill()
    scheduler.init_schedule_policy()
    return scheduler, pools


def _scheduler_type(base: Any) -> Any:
    """The release's scheduler; reporting is silent and what is absent answers as absent."""

    def __getattr__(self: Any, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.asked_for.add(name)
        return ABSENT

    def stream_output(self: Any, reqs: Any, *args: Any, **kwargs: Any) -> None:
        for req in reqs:
            if req.finished() and not req.finished_output:
                req.finished_output = True
                self.on_answer(req)

    def silent(self: Any, *args: Any, **kwargs: Any) -> None: ...

    quiet = [
        "report_prefill_stats",
        "report_decode_stats",
        "log_batch_result_stats",
        "update_device_timer",
        "maybe_send_health_check_signal",
        "_maybe_clear_mm_inputs",
        "_maybe_log_idle_metrics",
        "_publish_kv_events",
        "reset_device_timer_window",
        "maybe_sleep_on_idle",
        "_get_num_pending_tokens",
        "_abort_on_waiting_timeout",
        "_abort_on_running_timeout",
    ]
    members: dict[str, Any] = {name: silent for name in quiet if hasattr(base, name)}
    members |= {"__getattr__": __getattr__, "stream_output": stream_output}
    return type("Driver", (base,), members)


def _settings(scheduler: Any, release: Release, shape: Shape, pools: Pools) -> None:
    """What `Scheduler.__init__` takes from its arguments and from the loaded model."""
    upstream = release.scheduler
    args = release.server_args(
        page_size=shape.page_size,
        chunked_prefill_size=shape.chunk,
        disable_overlap_schedule=not shape.overlap,
        enable_hierarchical_cache=shape.hierarchical,
        hicache_ratio=shape.ratio,
        hicache_size=0,
        hicache_write_policy=shape.policy,
        hicache_io_backend="kernel",
        hicache_mem_layout="layer_first",
        attention_backend="torch_native",
        schedule_policy=shape.schedule_policy,
        enable_mixed_chunk=shape.mixed,
        schedule_conservativeness=1.0,
        max_running_requests=shape.running,
        pp_max_micro_batch_size=shape.running,
        swa_full_tokens_ratio=1.0,
        disable_radix_cache=False,
        mamba_scheduler_strategy="no_buffer",
        mamba_track_interval=256,
        speculative_algorithm=None,
        strip_thinking_cache=False,
        disaggregation_mode="null",
        device="cpu",
    )
    scheduler.server_args = args
    scheduler.model_config = SimpleNamespace(
        is_multimodal=False,
        is_matryoshka=False,
        is_encoder_decoder=False,
        vocab_size=VOCABULARY,
        think_end_id=None,
        hf_eos_token_id=None,
        context_len=shape.context,
    )
    answers = SimpleNamespace(send_output=lambda output, req=None: scheduler.on_answer(req))
    scheduler.send_to_tokenizer = answers
    scheduler.tp_worker = _worker(shape, pools)
    scheduler.model_worker = scheduler.tp_worker
    scheduler.disaggregation_mode = upstream.DisaggregationMode.NULL
    scheduler.spec_algorithm = upstream.SpeculativeAlgorithm.from_string(None)
    scheduler.page_size = shape.page_size
    scheduler.enable_hierarchical_cache = shape.hierarchical
    scheduler.enable_overlap = shape.overlap
    scheduler.schedule_policy = shape.schedule_policy
    scheduler.is_generation = True
    scheduler.device = "cpu"
    scheduler.pp_size = scheduler.tp_size = scheduler.dp_size = scheduler.attn_tp_size = 1
    scheduler.pp_rank = scheduler.tp_rank = 0
    scheduler.max_running_requests = shape.running
    scheduler.max_total_num_tokens = shape.full
    scheduler.max_req_len = min(shape.context - 1, shape.full - 1)
    scheduler.max_req_input_len = scheduler.max_req_len - 5
    scheduler.max_prefill_tokens = shape.prefill
    scheduler.num_generated_tokens = scheduler.forward_ct_decode = 0
    for name in ("prefill_delayer", "dllm_config", "truncation_align_size", "tp_cpu_group"):
        setattr(scheduler, name, None)
    for name in ("attn_cp_cpu_group", "attn_tp_cpu_group", "max_queued_requests"):
        setattr(scheduler, name, None)
    scheduler.forward_stream = Stream()
    scheduler.forward_stream.deferred = True


def _worker(shape: Shape, pools: Pools) -> Any:
    """The model worker, as far as `init_cache_with_memory_pool` asks it."""
    runner = SimpleNamespace(
        linear_attn_model_spec=None,
        hybrid_gdn_config=None,
        mamba2_config=True if shape.states else None,
    )
    return SimpleNamespace(
        is_hybrid_swa=bool(shape.window),
        sliding_window_size=shape.window or None,
        model_runner=runner,
        get_tokens_per_layer_info=lambda: (shape.full, shape.swa),
        get_memory_pool=lambda: (pools.rows, pools.allocator),
        register_hicache_layer_transfer_counter=lambda counter: None,
    )
