"""What servers call their metrics, and how the series of one metric become one number.

Tensor and pipeline ranks repeat a sample, so of series that differ in such a rank alone one counts;
data-parallel ranks serve different requests, so theirs are added up. Where a metric is told for
each pool apart, full attention's counts: tokens of a window or a state are other tokens.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from harness.load.settings import Backend

REPEATED = frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"})
POOL_LABELS = ("pool", "cache_type")
FULL_POOLS = frozenset({"kv", "full"})
TIERS = ("device", "host", "storage")
Scrape = Mapping[str, float]
Series = tuple[tuple[str, str], ...]


class Names(NamedTuple):
    """Samples of a backend by what they say; "" where it has none. Tokens, requests or seconds."""

    prompt: str
    output: str
    completed: str
    cached: str  # with the label cache_source, or of the device alone
    cached_host: str  # where hits of the tiers below have a name of their own
    running: str
    queued: str
    used: str
    evictable: str
    total: str
    usage: str  # share of the device's pool
    host_used: str
    host_total: str
    evicted: str
    loaded_back: str
    backed_up: str
    retracted: str
    ttft_s: str
    ttft_requests: str
    violations: str = "kvtorture:violations_total"
    started_s: str = "process_start_time_seconds"


SGLANG = Names(
    prompt="sglang:prompt_tokens_total",
    output="sglang:generation_tokens_total",
    completed="sglang:num_requests_total",
    cached="sglang:cached_tokens_total",
    cached_host="",
    running="sglang:num_running_reqs",
    queued="sglang:num_queue_reqs",
    used="sglang:kv_used_tokens",
    evictable="sglang:kv_evictable_tokens",
    total="sglang:max_total_num_tokens",
    usage="sglang:token_usage",
    host_used="sglang:hicache_host_used_tokens",
    host_total="sglang:hicache_host_total_tokens",
    evicted="sglang:evicted_tokens_total",
    loaded_back="sglang:load_back_tokens_total",
    backed_up="sglang:hicache_backup_tokens_total",
    retracted="sglang:num_retracted_requests_total",
    ttft_s="sglang:time_to_first_token_seconds_sum",
    ttft_requests="sglang:time_to_first_token_seconds_count",
)
VLLM = Names(
    prompt="vllm:prompt_tokens_total",
    output="vllm:generation_tokens_total",
    completed="vllm:request_success_total",
    cached="vllm:prefix_cache_hits_total",
    cached_host="vllm:external_prefix_cache_hits_total",
    running="vllm:num_requests_running",
    queued="vllm:num_requests_waiting",
    used="",
    evictable="",
    total="",
    usage="vllm:kv_cache_usage_perc",
    host_used="",
    host_total="",
    evicted="",
    loaded_back="",
    backed_up="",
    retracted="vllm:num_preemptions_total",
    ttft_s="vllm:time_to_first_token_seconds_sum",
    ttft_requests="vllm:time_to_first_token_seconds_count",
)
NAMES: dict[Backend, Names] = {"sglang": SGLANG, "openai": SGLANG, "vllm": VLLM}


def parse(text: str, names: Names) -> dict[str, float]:
    """The fields of `Names` that have a sample, `cached` by tier as `cached_device` and so on.
    Raises `ValueError` for what is no exposition."""
    fields = {name: field for field, name in names._asdict().items() if name}
    series: dict[str, dict[Series, float]] = {}
    for name, labels, value in _samples(_wanted(text, fields)):
        field = _field(fields[name], labels)
        rest = tuple(sorted((k, v) for k, v in labels.items() if k not in REPEATED))
        known = series.setdefault(field, {})
        known[rest] = max(value, known.get(rest, value))
    return {field: _joined(field, found) for field, found in series.items()}


def _wanted(text: str, fields: Iterable[str]) -> str:
    """The lines of those samples alone: a large exposition takes tens of milliseconds to parse,
    in which no answer would be heard."""
    names = frozenset(fields)
    return "".join(
        f"{line}\n" for line in text.splitlines() if line.split("{")[0].split(" ")[0] in names
    )


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def _field(field: str, labels: Mapping[str, str]) -> str:
    if field != "cached":
        return field
    source = labels.get("cache_source", "device")
    return f"cached_{next((tier for tier in TIERS if source.startswith(tier)), 'device')}"


def _joined(field: str, found: Mapping[Series, float]) -> float:
    if field in ("usage", "started_s"):
        return max(found.values())
    full = {
        series: value
        for series, value in found.items()
        if any(label in POOL_LABELS and pool in FULL_POOLS for label, pool in series)
    }
    return sum((full or found).values())
