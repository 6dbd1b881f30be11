"""The numbers a run is quoted by: flat keys, units and denominators in their names.

Percentiles are numpy's linear ones over completed steady requests, or within 0.4 % of them when
there are very many; a statistic of nothing is 0, and `completed` says so.
"""

from collections.abc import Mapping
from typing import NamedTuple

from harness.record.column import EXACT_VALUES, Statistics, statistics_of
from harness.record.histogram import Histogram
from harness.record.requests import STATUSES, RequestColumns

Number = float | int | str
PERCENTILE_RULE = f"numpy, linear; above {EXACT_VALUES:,} requests within 0.4 % of that"
STATISTICS = Statistics._fields


class Key(NamedTuple):
    unit: str
    meaning: str


LATENCY_STEMS: dict[str, str] = {
    "ttft_ms": "time to first token, from the send",
    "ttft_scheduled_ms": "time to first token, from the scheduled arrival: what a user feels",
    "queue_ms": "part of ttft_ms: waiting for admission",
    "match_ms": "part of ttft_ms: looking the prefix up and locking it",
    "load_ms": "part of ttft_ms: waiting for load-backs",
    "prefill_ms": "part of ttft_ms: computing the tokens that were not cached",
    "tpot_ms": "(e2e latency - TTFT) / (output tokens - 1), for answers of two tokens and more",
    "itl_ms": "gap between two tokens of one answer, all gaps (percentiles within 0.4 %)",
    "e2e_latency_ms": "from the send to the last token",
}

REQUEST_KEYS: dict[str, Key] = {
    "completed": Key("requests", "answered in full"),
    "rejected": Key("requests", "refused, as a server would refuse them (longer than the context)"),
    "aborted": Key("requests", "taken back by the client"),
    "failed": Key("requests", "ended by an error"),
    "verified": Key("requests", "completed ones whose served content was checked"),
    "warmup_requests": Key("requests", "sent before the steady phase; in no other number"),
    "duration_s": Key("s", "from the first scheduled arrival to the last end"),
    "request_throughput": Key("requests/s", "completed / duration_s"),
    "input_throughput": Key("tokens/s", "prompt tokens of completed requests / duration_s"),
    "output_throughput": Key("tokens/s", "output tokens of completed requests / duration_s"),
    "total_token_throughput": Key(
        "tokens/s", "prompt and output tokens of completed requests / duration_s"
    ),
    "total_input_tokens": Key("tokens", "prompt tokens of completed requests"),
    "total_output_tokens": Key("tokens", "output tokens of completed requests"),
    "cached_tokens_device": Key("tokens", "prompt tokens served from the device"),
    "cached_tokens_host": Key("tokens", "prompt tokens loaded back from the host"),
    "cached_tokens_storage": Key("tokens", "prompt tokens fetched from storage"),
    "eligible_tokens": Key(
        "tokens", "prompt tokens that could be hits at all: whole pages, at most n-1"
    ),
    "ideal_tokens": Key("tokens", "prompt tokens that a cache without limits would have hit"),
    "prefix_token_hit_rate": Key("ratio", "cached tokens of all tiers / total_input_tokens"),
    "eligible_token_hit_rate": Key("ratio", "cached tokens of all tiers / eligible_tokens"),
    "ideal_token_hit_rate": Key(
        "ratio", "ideal_tokens / total_input_tokens: the most any cache could reach"
    ),
    "tier_hit_share_device": Key("ratio", "cached_tokens_device / cached tokens of all tiers"),
    "tier_hit_share_host": Key("ratio", "cached_tokens_host / cached tokens of all tiers"),
    "tier_hit_share_storage": Key("ratio", "cached_tokens_storage / cached tokens of all tiers"),
}


def _tier(tier: str) -> dict[str, Key]:
    return {
        f"{tier}_written_bytes": Key("bytes", f"written into {tier} slots"),
        f"{tier}_read_bytes": Key("bytes", f"read from {tier} slots by copies"),
        f"{tier}_hit_tokens": Key("tokens", f"prompt tokens found on the {tier}, all phases"),
        f"{tier}_evicted_pages": Key("pages", f"evicted from the {tier}, all components"),
        f"peak_{tier}_bytes": Key("bytes", f"most {tier} slots in use at once"),
    }


RUN_KEYS: dict[str, Key] = {
    "verdict": Key("", "pass, violation, decay or inconclusive"),
    "verdict_reason": Key("", "why, in one sentence"),
    "violations": Key("violations", "found by all oracles"),
    "hit_trend": Key("", "whether hits became rarer over the run, in words"),
    "hit_fall": Key("ratio", "of the share of possible hits, first window to last, as fitted"),
    "hit_fall_chance": Key("ratio", "of such a fall without any trend"),
    "answer_trend": Key("", "whether wrong answers became more, in words (`load --check-output`)"),
    "marks": Key("marks", "different marks that were reached"),
    "digest": Key("", "hash over every event: equal for the same seed on every machine"),
    "events": Key("events", "steps of the world"),
    "peak_rss_bytes": Key("bytes", "most resident memory of this process (measured)"),
    **_tier("device"),
    **_tier("host"),
    "storage_written_bytes": Key("bytes", "sent to storage by persists, those it refused included"),
    "storage_read_bytes": Key("bytes", "asked of storage by prefetches"),
    "storage_hit_tokens": Key("tokens", "prompt tokens fetched from storage, all phases"),
    "storage_pages": Key("pages", "in storage at the end, of all components and ranks"),
    "persisted_pages": Key("pages", "that storage took of persists, of all components"),
    "prefetches": Key("prefetches", "requests that asked storage for what the tree lacked"),
    "prefetched_pages": Key("pages", "that came from storage, of all components"),
    "ranks": Key("ranks", "caches that were driven, one for each rank"),
    "agreements": Key("agreements", "that the ranks came to, each of which took its time"),
    "ahead_forwards": Key("forwards", "that began ahead of a load-back (`--compute model`)"),
    "logits_checked_requests": Key(
        "requests", "recomputed from scratch by N1, at the first token and at the end"
    ),
    "logits_checked_positions": Key("positions", "whose logits N1 compared"),
    "logits_unchecked_requests": Key(
        "requests", "that were to be recomputed, and for which there was no time"
    ),
    "prefix_block_hit_rate": Key("ratio", "hit pages / prompt pages (with --ids-as-pages)"),
    "evicted_pages": Key("pages", "evicted from the device (with --ids-as-pages)"),
    "dropped_requests": Key("requests", "never sent, for no user was free in time (`load`)"),
    "late_requests": Key("requests", "sent more than 10 ms after their time (`load`)"),
    "median_schedule_delay_ms": Key("ms", "how late requests were sent, half (`load`)"),
    "p99_schedule_delay_ms": Key("ms", "the same, 99 of 100 (`load`)"),
    "median_client_lag_ms": Key("ms", "the part of it that no busy user explains, half (`load`)"),
    "p99_client_lag_ms": Key("ms", "the same, 99 of 100 (`load`)"),
    "client_cpu_share": Key("ratio", "of one core, by the client's busiest process (`load`)"),
    "degraded": Key("", "why the client was the bottleneck; empty when it was not (`load`)"),
    "saturated": Key("", "why the server was the bottleneck; empty when it was not (`load`)"),
    "errors": Key("", "how many errors of each class (`load`)"),
    "outputs_checked": Key("requests", "asked again at the end (`load --check-output`)"),
    "outputs_differed": Key("answers", "that were not those of the run (`load --check-output`)"),
    "outputs_loaded_back": Key("requests", "asked again from below the device (`load`)"),
    "outputs_evicted": Key("", "how they were pushed off the device before (`load`)"),
    "server_completed_requests": Key("requests", "by the server's own count (`load`)"),
    "server_prompt_tokens": Key("tokens", "by the server's own count (`load`)"),
    "server_output_tokens": Key("tokens", "by the server's own count (`load`)"),
    "server_cached_device_tokens": Key("tokens", "device hits, by the server's count (`load`)"),
    "server_cached_host_tokens": Key("tokens", "host hits, by the server's count (`load`)"),
    "server_cached_storage_tokens": Key("tokens", "storage hits, by the server's count (`load`)"),
    "server_evicted_tokens": Key("tokens", "left the device for want of room (`load`)"),
    "server_load_back_tokens": Key("tokens", "copied from the host to the device (`load`)"),
    "server_backup_tokens": Key("tokens", "copied from the device to the host (`load`)"),
    "server_retracted_requests": Key("requests", "sent back to the queue (`load`)"),
    "server_mean_ttft_ms": Key("ms", "mean time to first token, by the server's clock (`load`)"),
    "server_peak_device_tokens": Key("tokens", "most that requests held on the device (`load`)"),
    "server_peak_host_tokens": Key("tokens", "most that the host tier held (`load`)"),
}


def summarise(
    columns: RequestColumns, itl: Histogram, counters: Mapping[str, Number] | None = None
) -> dict[str, Number]:
    """Return every key of `LATENCY_STEMS` x `STATISTICS` and `REQUEST_KEYS`, then `counters` as
    they are.

    `itl` holds seconds. A counter may not take the place of a key computed here.
    """
    tokens = columns.tokens
    cached = sum(tokens[f"cached_tokens_{tier}"] for tier in ("device", "host", "storage"))
    prompt, output = tokens["prompt_tokens"], tokens["output_tokens"]
    duration_s = columns.duration_s
    summary: dict[str, Number] = {
        **{status: columns.statuses[status] for status in STATUSES},
        "verified": columns.verified,
        "warmup_requests": columns.warmup,
        "duration_s": duration_s,
        "request_throughput": _ratio(columns.statuses["completed"], duration_s),
        "input_throughput": _ratio(prompt, duration_s),
        "output_throughput": _ratio(output, duration_s),
        "total_token_throughput": _ratio(prompt + output, duration_s),
        "total_input_tokens": prompt,
        "total_output_tokens": output,
        **{name: tokens[name] for name in tokens if name not in ("prompt_tokens", "output_tokens")},
        "prefix_token_hit_rate": _ratio(cached, prompt),
        "eligible_token_hit_rate": _ratio(cached, tokens["eligible_tokens"]),
        "ideal_token_hit_rate": _ratio(tokens["ideal_tokens"], prompt),
        **{
            f"tier_hit_share_{tier}": _ratio(tokens[f"cached_tokens_{tier}"], cached)
            for tier in ("device", "host", "storage")
        },
    }
    for stem in LATENCY_STEMS:
        summary |= _of_histogram(itl) if stem == "itl_ms" else _of_column(columns, stem)
    taken = summary.keys() & (counters or {}).keys()
    assert not taken, f"counters would replace {sorted(taken)}"
    return summary | dict(counters or {})


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _of_column(columns: RequestColumns, stem: str) -> dict[str, Number]:
    found = columns.latency(stem).statistics()._asdict()
    return {f"{statistic}_{stem}": value for statistic, value in found.items()}


def _of_histogram(itl: Histogram) -> dict[str, Number]:
    found = statistics_of(itl)._asdict()
    return {f"{statistic}_itl_ms": value * 1e3 for statistic, value in found.items()}
