"""The flags of a server, for every command that has one, and what a pasted launch command sets."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import click

from cache.storage.backends import BACKENDS
from harness.sglang_flags import Launch, parse_launch
from harness.soak.settings import Serving

_SERVING = Serving()


def settings_of(kind: type[Any], flags: Mapping[str, Any]) -> Any:
    """A settings dataclass, made of the flags that are named as its fields are."""
    return kind(**{f.name: flags[f.name] for f in fields(kind) if f.name in flags})


def typed(context: click.Context, name: str) -> bool:
    """Whether the user gave this parameter."""
    return context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


# What a model that is computed here takes, unless a flag says otherwise.
MODEL_DEFAULTS: Mapping[str, object] = {
    "model": "tiny-hybrid",
    "hardware": "cpu",
    "tp": 1,
    "page_size": 16,
    "device_pages": 1024,
    "max_mamba_cache_size": 64,
    "context_length": 8192,
    "chunked_prefill_size": 512,
    "max_running_requests": 16,
    "storage_size": 1.0,
}


def fit_model(context: click.Context, flags: dict[str, Any]) -> None:
    """Sizes that the model compute can do, where none were typed."""
    for name, value in MODEL_DEFAULTS.items():
        if not typed(context, name):
            flags[name] = value


def launch_of(context: click.Context, flags: dict[str, Any]) -> Launch:
    """Use what a pasted launch command says, except where a flag was typed as well."""
    if not flags["from_sglang"]:
        return Launch({}, ())
    parameters = {
        option: parameter
        for parameter in context.command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    supported = [option for option in parameters if option not in _NOT_OF_A_LAUNCH]
    launch = _simulated(parse_launch(flags["from_sglang"], supported=supported))
    flags["hierarchical"] = _pick(context, flags, "hierarchical", launch.hierarchical)
    for option, text in launch.known.items():
        parameter = parameters[option]
        name = parameter.name
        assert name is not None
        if option in ("--enable-hierarchical-cache", "--disable-radix-cache"):
            value: Any = option.startswith("--enable")
        else:
            value = parameter.type_cast_value(context, text)
            if parameter.callback is not None:
                value = parameter.callback(context, parameter, value)
        flags[name] = _pick(context, flags, name, value)
    return launch


def _simulated(launch: Launch) -> Launch:
    """A storage backend that is not here is listed with what is ignored."""
    flag = "--hicache-storage-backend"
    backend = launch.known.get(flag, BACKENDS[0])
    if backend in BACKENDS:
        return launch
    known = {name: value for name, value in launch.known.items() if name != flag}
    return Launch(known, (*launch.ignored, f"{flag} {backend}"))


def _pick(context: click.Context, flags: Mapping[str, Any], name: str, value: Any) -> Any:
    return flags[name] if typed(context, name) else value


def _names(context: click.Context, parameter: click.Parameter, value: Any) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    return tuple(part.strip() for part in str(value or "").split(",") if part.strip())


_opt = click.option
SERVING_OPTIONS = (
    _opt("--model", default=_SERVING.model, show_default=True,
         help="A preset, or the path of a Hugging Face config.json."),
    _opt("--hardware", default=_SERVING.hardware, show_default=True,
         help="H200, B200, H100, A100, cpu, or a .json from bench.py calibrate."),
    _opt("--tp", "--tp-size", default=_SERVING.tp, show_default=True, help="Tensor parallelism."),
    _opt("--compute", default=_SERVING.compute, show_default=True,
         help="roofline, null (the cache's own cost only) or model: computed here."),
    _opt("--device", default=_SERVING.device,
         help="cpu or cuda, for --compute model  [default: cuda where there is one]"),
    _opt("--decoding", default=_SERVING.decoding, show_default=True,
         help="trace (answers as the traffic has them), greedy or sampled, for --compute model;"
              " greedy in serve."),
    _opt("--check-logits", default=_SERVING.check_logits, show_default=True,
         help="Share of the requests whose logits are recomputed from scratch (oracle N1)."),
    _opt("--context-length", default=_SERVING.context_length, show_default=True,
         help="Longer prompts are rejected, as a server would."),
    _opt("--kv-cache-dtype", default=_SERVING.kv_cache_dtype, show_default=True,
         help="fp8_e4m3, fp8_e5m2, bf16 or auto."),
    _opt("--mem-fraction-static", default=_SERVING.mem_fraction_static, show_default=True,
         help="Share of device memory for weights and KV."),
    _opt("--page-size", default=_SERVING.page_size, show_default=True, help="Tokens of a page."),
    _opt("--device-pages", type=int, help="FULL slots on the device, whatever its memory."),
    _opt("--components", default="", callback=_names,
         help="full, full,swa or full,mamba  [default: those of the model]"),
    _opt("--swa-full-tokens-ratio", default=_SERVING.swa_full_tokens_ratio, show_default=True,
         help="SWA slots for each FULL slot."),
    _opt("--mamba-full-memory-ratio", default=_SERVING.mamba_full_memory_ratio, show_default=True,
         help="Bytes of recurrent states for each byte of KV."),
    _opt("--max-mamba-cache-size", type=int, help="Recurrent states on the device instead."),
    _opt("--mamba-ssm-dtype", default=_SERVING.mamba_ssm_dtype, show_default=True,
         help="float32 or bfloat16."),
    _opt("--companions", default="", callback=_names,
         help="What every slot has beside it: scales, indexer, draft, side  [default: nothing]"),
    _opt("--enable-hierarchical-cache/--disable-hierarchical-cache", "hierarchical", default=True,
         show_default=True, help="The host tier."),
    _opt("--enable-radix-cache/--disable-radix-cache", "radix_cache", default=True,
         help="Prefix caching itself; off is the baseline."),
    _opt("--hicache-ratio", default=_SERVING.hicache_ratio, show_default=True,
         help="Host slots for each device slot, 0.25 to 8."),
    _opt("--hicache-size", default=_SERVING.hicache_size, show_default=True,
         help="Host memory in GB per rank; overrides the ratio."),
    _opt("--hicache-write-policy", default=_SERVING.hicache_write_policy, show_default=True,
         help="write_through, write_through_selective or write_back."),
    _opt("--hicache-io-backend", default=_SERVING.hicache_io_backend, show_default=True,
         help="kernel or direct: who copies, or whose time is modelled."),
    _opt("--hicache-mem-layout", default=_SERVING.hicache_mem_layout, show_default=True,
         help="layer_first, page_first or page_first_direct: how the host's pool lies."),
    _opt("--load-back-overlap", default=_SERVING.load_back_overlap,
         help="layer (a prefill begins ahead of its load-back and waits layer by layer) or none"
              "  [default: layer for a model on the wall clock, else none]"),
    _opt("--hicache-storage-backend", default=_SERVING.hicache_storage_backend,
         help="Storage below the host: file, redis, memory or none"
              "  [default: memory in a soak, else none]"),
    _opt("--hicache-storage-prefetch-policy",
         default=_SERVING.hicache_storage_prefetch_policy, show_default=True,
         help="best_effort, wait_complete or timeout."),
    _opt("--prefetch-threshold", default=_SERVING.prefetch_threshold, show_default=True,
         help="Fewer tokens are not fetched from storage."),
    _opt("--prefetch-batch-pages", default=_SERVING.prefetch_batch_pages, show_default=True,
         help="Pages that one question to storage asks for."),
    _opt("--prefetch-timeout-base", default=_SERVING.prefetch_timeout_base, show_default=True,
         help="Seconds that the policy timeout waits in any case."),
    _opt("--prefetch-timeout-per-ki-token", default=_SERVING.prefetch_timeout_per_ki_token,
         show_default=True, help="And for each 1,024 tokens that could come."),
    _opt("--storage-path", default=_SERVING.storage_path,
         help="Folder of file, URL of redis  [default: a folder of the run]"),
    _opt("--storage-size", default=_SERVING.storage_size, show_default=True,
         help="GB of KV per rank that storage holds."),
    _opt("--storage-read-bandwidth", default=_SERVING.storage_read_bandwidth, show_default=True,
         help="GB/s, modelled."),
    _opt("--storage-write-bandwidth", default=_SERVING.storage_write_bandwidth, show_default=True,
         help="GB/s, modelled."),
    _opt("--storage-latency", default=_SERVING.storage_latency, show_default=True,
         help="Microseconds of one question, modelled."),
    _opt("--storage-troubles", default=_SERVING.storage_troubles, show_default=True,
         help="Seed of a plan that makes storage slow, full, failing, torn or lying; 0 is none."),
    _opt("--radix-eviction-policy", default=_SERVING.radix_eviction_policy, show_default=True,
         help="lru, lfu or priority, on the device."),
    _opt("--host-eviction-policy", default=_SERVING.host_eviction_policy, show_default=True,
         help="The same on the host."),
    _opt("--load-back-threshold", default=_SERVING.load_back_threshold, show_default=True,
         help="Shorter gains (tokens) are not loaded back."),
    _opt("--chunked-prefill-size", default=_SERVING.chunked_prefill_size, show_default=True,
         help="Prefill tokens of one forward."),
    _opt("--max-running-requests", default=_SERVING.max_running_requests, show_default=True,
         help="Most requests admitted at once."),
    _opt("--schedule-conservativeness", default=_SERVING.schedule_conservativeness,
         show_default=True, help="Share of promised answers that admission keeps room for."),
    _opt("--from-sglang", default="", metavar="COMMAND",
         help='A pasted "sglang serve ..." command; what it knows is used, the rest listed.'),
)  # fmt: skip
_NOT_OF_A_LAUNCH = ("--trace", "--set", "--json", "--tag", "--from-sglang", "--seed")
