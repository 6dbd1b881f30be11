"""What differs between servers: fields of a request, and names of metrics."""

import json
from typing import Any, NamedTuple

from harness.load.exchange import Outcome
from harness.load.settings import Backend


class Hits(NamedTuple):
    """Prompt tokens by tier. A server that does not tell tiers apart has all on the device."""

    device: int
    host: int
    storage: int


def body_of(
    backend: Backend, model: str, prompt: list[int], max_tokens: int, *, salt: str, priority: int
) -> str:
    """The JSON of a streamed greedy completion of `max_tokens`, no fewer where the backend can be
    told so."""
    body: dict[str, Any] = {
        "model": model,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if backend != "openai":
        body["ignore_eos"] = True
        if salt:
            body["cache_salt"] = salt
        if priority:
            body["priority"] = priority
    if backend == "sglang":
        body["return_cached_tokens_details"] = True
    return json.dumps(body, separators=(",", ":"))


def hits_of(outcome: Outcome) -> Hits:
    """What `usage` says was cached, by tier."""
    inner = outcome.usage.get("prompt_tokens_details") or {}
    cached = int(inner.get("cached_tokens") or 0)
    details = outcome.details
    host, storage = int(details.get("host") or 0), int(details.get("storage") or 0)
    return Hits(int(details.get("device", cached - host - storage) or 0), host, storage)


class Names(NamedTuple):
    """Metrics of a backend, each with its unit in tokens or requests; "" where it has none."""

    prompt: str
    output: str
    completed: str
    cached: str  # with the label cache_source, or in all
    running: str
    queued: str
    used: str
    evictable: str
    host_used: str
    host_total: str
    violations: str = "kvtorture:violations_total"


SGLANG = Names(
    "sglang:prompt_tokens_total", "sglang:generation_tokens_total", "sglang:num_requests_total",
    "sglang:cached_tokens_total", "sglang:num_running_reqs", "sglang:num_queue_reqs",
    "sglang:kv_used_tokens", "sglang:kv_evictable_tokens", "sglang:hicache_host_used_tokens",
    "sglang:hicache_host_total_tokens",
)  # fmt: skip
VLLM = Names(
    "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total",
    "vllm:prefix_cache_hits_total", "vllm:num_requests_running", "vllm:num_requests_waiting",
    "", "", "", "",
)  # fmt: skip
NAMES: dict[Backend, Names] = {"sglang": SGLANG, "openai": SGLANG, "vllm": VLLM}
