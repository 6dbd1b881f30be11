"""What of a server's `/get_server_info` belongs into a run directory.

Only settings that explain a measurement are kept, by name: servers also tell keys, tokens and the
paths of one machine.
"""

from collections.abc import Mapping
from pathlib import PurePath

KEPT = (
    "version", "served_model_name", "model_path", "tp_size", "dp_size", "pp_size", "page_size",
    "kv_cache_dtype", "context_length", "max_total_tokens", "max_running_requests",
    "chunked_prefill_size", "mem_fraction_static", "schedule_policy", "radix_eviction_policy",
    "disable_radix_cache", "attention_backend", "enable_hierarchical_cache", "hicache_ratio",
    "hicache_size", "hicache_write_policy", "hicache_io_backend", "hicache_mem_layout",
    "hicache_storage_backend", "hicache_storage_prefetch_policy",
)  # fmt: skip
STATE_KEPT = ("last_gen_throughput", "effective_max_running_requests_per_dp")
LONGEST = 200


def settings_of(page: Mapping[str, object]) -> dict[str, object]:
    """The kept settings that the page has, whatever else a server puts into it."""
    found = {name: _short(page[name]) for name in KEPT if _plain(page.get(name))}
    states = page.get("internal_states")
    state = states[0] if isinstance(states, list) and states else None
    if isinstance(state, Mapping):
        found |= {name: state[name] for name in STATE_KEPT if _plain(state.get(name))}
        memory = state.get("memory_usage")
        if isinstance(memory, Mapping) and _plain(memory.get("token_capacity")):
            found["token_capacity"] = memory["token_capacity"]
    return found


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float) and value != ""


def _short(value: object) -> object:
    """A name instead of a path of one machine, and no essay."""
    if not isinstance(value, str):
        return value
    return (PurePath(value).name if value.startswith(("/", "~")) else value)[:LONGEST]
