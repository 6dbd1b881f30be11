"""A release's own scheduler with a world around it instead of a server.

The driver *is* `Scheduler` of the release (`srt/managers/scheduler.py`), made without its server:
what it admits, chunks, finishes, retracts, aborts, polls and evicts, and in which order, is decided
by the release's own methods. Only what surrounds them is the world's: the event loop is told step
by step (`World`), the model's forward pass moves fingerprints, and answers go to the world.

Invariant: the cache is called by the release's code alone.
"""

import json
from collections.abc import Callable
from functools import partial
from inspect import signature
from types import SimpleNamespace
from typing import Any

from harness.targets.sglang.device import Device, Stream
from harness.targets.sglang.loader import upstream
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

    def __enter__(self) -> "Absent":
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def __add__(self, count: int) -> int:
        return count  # a statistic that nobody keeps

    def __rsub__(self, count: int) -> int:
        return count  # nothing is taken off

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return self


ABSENT = Absent()


class Bypass:
    """A stage that a batch goes through unchanged, whatever the stage is asked to do with it."""

    def __getattr__(self, name: str) -> Any:
        return lambda batch=None, *args, **kwargs: batch


class Plain(SimpleNamespace):
    """Of a model or its worker: what is not told is None, as in a plain model's configuration."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


# What the release's own `__init__` calls that is kept; the other `init_...` open sockets, load a
# model, start threads, and are left out.
KEPT = (
    "init_cache_with_memory_pool",
    "init_running_status",
    "init_chunked_prefill",
    "maybe_init_dynamic_chunk_sizer",
    "init_schedule_policy",
    "init_pool_stats_observer",
    "init_invariant_checker",
    "init_output_streamer",
    "init_dp_attn_adapter",
    "init_req_max_new_tokens",
    "init_batch_result_processor",
)
SILENT = (
    "report_prefill_stats",
    "report_decode_stats",
    "log_batch_result_stats",
    "update_device_timer",
    "maybe_send_health_check_signal",
    "reset_device_timer_window",
    "maybe_sleep_on_idle",
    "publish_load_snapshot",
    "_record_step_counters",
    "_maybe_clear_mm_inputs",
    "_maybe_log_idle_metrics",
    "_publish_kv_events",
    "_get_num_pending_tokens",
    "_abort_on_waiting_timeout",
    "_abort_on_running_timeout",
    "_maybe_register_hicache_draft",
    "install_device_timer_on_runners",
)
# Parts of a scheduler that this server has not got; asked for with `is None`.
UNSET = (
    "prefill_delayer",
    "min_free_slots_delayer",
    "truncation_align_size",
    "max_queued_requests",
    "hisparse_coordinator",
    "metrics_collector",
)
# What a model's configuration may be; asked of the model from 0.5.17 on.
MODEL_KINDS = (
    "linear_attn_model_spec",
    "hybrid_gdn_config",
    "kimi_linear_config",
    "hybrid_lightning_config",
)
# Classes that only report; an absent one takes all it is told.
REPORTERS = ("SchedulerMetricsReporter", "SchedulerMetricsCollector", "PrefillStats")


def make_scheduler(
    release: Release, shape: Shape, on_answer: Callable[[Any], None]
) -> tuple[Any, Pools]:
    """A scheduler over a fresh cache of `shape`. `on_answer(req)` is called for every request that
    ended, whichever way."""
    release.fresh()
    Device.current = Device.default = Stream()
    pools = build_pools(release, shape)
    pools.full.component = "full"
    if pools.swa is not None:
        pools.swa.component = "swa"
    for name in REPORTERS:
        release.set_if_there(name, ABSENT)
    for name in MODEL_KINDS:
        release.set_if_there(name, lambda model: None)
    release.set_if_there("mamba2_config", lambda model: True if shape.states else None)
    release.set_if_there("uses_ssm_state", lambda model: bool(shape.states))
    release.set_if_there("is_deepseek_dsa", lambda model: False)
    release.set_if_there("resolve_spec_hidden_size", lambda *model, **more: (0, 0))
    release.set_if_there("init_parallel_runtime", lambda *ranks, **more: ABSENT)
    release.set_if_there("init_layer_runtime", lambda *ranks, **more: None)
    release.set_if_there("init_threads_binding", lambda *ranks, **more: None)
    base = release.find("Scheduler")
    scheduler = object.__new__(_scheduler_type(base, shape, pools, on_answer))
    scheduler.asked_for = set()
    known = list(signature(base.__init__).parameters)[1:]
    told = {"server_args": _server_args(release, shape), "port_args": ABSENT, "dp_rank": None}
    scheduler.__init__(**{name: told.get(name, 0) for name in known})
    scheduler.server_args = told["server_args"]
    return scheduler, pools


def _scheduler_type(base: Any, shape: Shape, pools: Pools, on_answer: Callable[[Any], None]) -> Any:
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
                on_answer(req)

    def init_model_config(self: Any) -> None:
        self.model_config = _model(shape)
        self.is_generation = True
        self.dllm_config = None

    def init_ipc_channels(self: Any, port_args: Any) -> None:
        answers = SimpleNamespace(send_output=lambda output, req=None: on_answer(req))
        self.send_to_tokenizer = answers
        self.rust_server = None
        self.ipc_channels = SimpleNamespace(
            send_to_tokenizer=answers, send_to_detokenizer=ABSENT, send_metrics_from_scheduler=None
        )

    def init_model_worker(self: Any) -> None:
        _load_model(self, shape, pools)

    def init_output_streamer(self: Any) -> None:
        self.output_streamer = SimpleNamespace(stream_output=partial(stream_output, self))

    def silent(self: Any, *args: Any, **kwargs: Any) -> None: ...

    members: dict[str, Any] = {name: silent for name in SILENT if hasattr(base, name)}
    for name in dir(base):
        if name.startswith(("init_", "maybe_init_")) and name not in (
            *KEPT,
            "init_req_max_new_tokens",
        ):
            members[name] = silent
    members |= {
        "__getattr__": __getattr__,
        "stream_output": stream_output,
        "init_model_config": init_model_config,
        "init_ipc_channels": init_ipc_channels,
        "init_model_worker": init_model_worker,
        "init_output_streamer": init_output_streamer,
    }
    return type("Driver", (base,), members)


def _server_args(release: Release, shape: Shape) -> Any:
    """A launch's arguments: the release's defaults, and these."""
    return release.server_args(
        page_size=shape.page_size,
        chunked_prefill_size=shape.chunk,
        disable_overlap_schedule=not shape.overlap,
        enable_hierarchical_cache=shape.hierarchical,
        hicache_ratio=shape.ratio,
        hicache_size=0,
        hicache_write_policy=shape.policy,
        hicache_io_backend="direct",
        hicache_mem_layout="page_first_direct",
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
        model_config=_model(shape),
        _model_config=_model(shape),  # where later releases remember it
        **_storage_args(shape),
    )


def _storage_args(shape: Shape) -> dict[str, Any]:
    """A launch's arguments of its storage."""
    if not shape.storage:
        return {}
    return {
        "hicache_storage_backend": shape.storage,
        "hicache_storage_prefetch_policy": shape.prefetch,
        "hicache_storage_backend_extra_config": json.dumps({"prefetch_threshold": shape.threshold}),
    }


def _model(shape: Shape) -> Any:
    """The model's configuration, as far as the scheduler asks it."""
    return Plain(
        is_multimodal=False,
        is_matryoshka=False,
        is_encoder_decoder=False,
        vocab_size=VOCABULARY,
        think_end_id=None,
        hf_eos_token_id=None,
        context_len=shape.context,
    )


def _load_model(scheduler: Any, shape: Shape, pools: Pools) -> None:
    """What `init_model_worker` takes from the loaded model and its memory."""
    runner = Plain(
        linear_attn_model_spec=None,
        hybrid_gdn_config=None,
        mamba2_config=True if shape.states else None,
        mtp_draft_device_pools=(),
        mtp_draft_mamba_pools=(),
    )
    worker = Plain(
        is_hybrid_swa=bool(shape.window),
        sliding_window_size=shape.window or None,
        model_runner=runner,
        get_tokens_per_layer_info=lambda: (shape.full, shape.swa),
        get_memory_pool=lambda: (pools.rows, pools.allocator),
        register_hicache_layer_transfer_counter=lambda counter: None,
    )
    scheduler.tp_worker = scheduler.model_worker = worker
    scheduler.draft_worker = None
    scheduler.ngram_embedding_manager = Bypass()
    scheduler.device = "cpu"
    scheduler.max_running_requests = shape.running
    scheduler.max_total_num_tokens = shape.full
    scheduler.max_req_len = min(shape.context - 1, shape.full - 1)
    scheduler.max_req_input_len = scheduler.max_req_len - 5
    scheduler.max_prefill_tokens = shape.prefill
    scheduler.num_generated_tokens = scheduler.forward_ct_decode = 0
    scheduler.tp_group = scheduler.pp_group = Plain()  # one rank: no processes to agree with
    for group in ("tp_cpu_group", "attn_tp_cpu_group", "attn_cp_cpu_group"):
        setattr(scheduler, group, None)
    for name in UNSET:
        setattr(scheduler, name, None)
    scheduler.disaggregation_mode = release_modes(scheduler).NULL
    stream = scheduler.forward_stream = runner.forward_stream = Stream()  # the copies' fence, too
    stream.deferred = True


def release_modes(scheduler: Any) -> Any:
    """The release's kinds of disaggregation; these servers have none."""
    return upstream("srt.disaggregation.utils").DisaggregationMode
