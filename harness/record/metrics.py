"""The names a run's time series may use, with unit and meaning.

A name that is not here cannot be recorded: a column nobody has defined is a column nobody can read.
"""

from typing import NamedTuple

COMPANIONS = ("scales", "window_scales", "indexer", "draft", "side")


class Metric(NamedTuple):
    """`stat` is "last" (the value at the sample), "interval" (over the engine's last sample
    interval) or "total" (since the start).
    """

    unit: str
    stat: str
    meaning: str


def _pool(tier: str, component: str) -> dict[str, Metric]:
    name = f"{tier}_{component}"
    where = f"{component.upper()} slots on the {tier}"
    return {
        f"{name}_used_pages": Metric("pages", "last", f"{where} that are not free"),
        f"{name}_locked_pages": Metric(
            "pages", "last", f"{where} in the tree that a holder keeps from eviction"
        ),
        f"{name}_evictable_pages": Metric(
            "pages", "last", f"{where} in the tree that may be evicted"
        ),
    }


def _companions(tier: str) -> dict[str, Metric]:
    return {
        f"{tier}_{name}_used_pages": Metric(
            "pages", "last", f"slots of the companion {name} on the {tier} that are not free"
        )
        for name in COMPANIONS
    }


def _server() -> dict[str, Metric]:
    """By the server's own word, under `load`; those in total since the first look."""
    totals = {
        "prompt_tokens": ("tokens", "prompt tokens served"),
        "output_tokens": ("tokens", "tokens answered"),
        "completed_requests": ("requests", "requests completed"),
        "cached_device_tokens": ("tokens", "prompt tokens that were hits on the device"),
        "cached_host_tokens": ("tokens", "prompt tokens that were hits on the host"),
        "cached_storage_tokens": ("tokens", "prompt tokens that were hits in storage"),
        "evicted_tokens": ("tokens", "tokens that left the device for want of room"),
        "load_back_tokens": ("tokens", "tokens copied from the host to the device"),
        "backup_tokens": ("tokens", "tokens copied from the device to the host"),
        "retracted_requests": ("requests", "running requests that were sent back to the queue"),
        "ttft_total_s": ("s", "sum of the server's own times to a first token"),
        "ttft_requests": ("requests", "requests in `server_ttft_total_s`"),
    }
    lasts = {
        "device_used_tokens": ("tokens", "device tokens held by requests"),
        "device_evictable_tokens": ("tokens", "device tokens cached that may be evicted"),
        "device_total_tokens": ("tokens", "size of the device's pool"),
        "device_usage": ("ratio", "share of the device's pool in use"),
        "host_used_tokens": ("tokens", "tokens held by the host tier"),
        "host_total_tokens": ("tokens", "size of the host tier's pool"),
    }
    said = "by the server's own word (`load`)"
    return {
        f"server_{name}": Metric(unit, stat, f"{meaning}, {said}")
        for stat, table in (("total", totals), ("last", lasts))
        for name, (unit, meaning) in table.items()
    }


TIMESERIES: dict[str, Metric] = {
    **_pool("device", "full"),
    **_pool("device", "swa"),
    **_pool("device", "mamba"),
    **_pool("host", "full"),
    **_pool("host", "swa"),
    **_pool("host", "mamba"),
    **_companions("device"),
    **_companions("host"),
    "device_used_bytes": Metric("bytes", "last", "all device slots that are not free, in bytes"),
    "host_used_bytes": Metric("bytes", "last", "all host slots that are not free, in bytes"),
    "queue_requests": Metric("requests", "last", "requests that wait for admission"),
    "running_requests": Metric("requests", "last", "requests in prefill or decode"),
    "batch_tokens": Metric("tokens", "last", "tokens computed by the last step"),
    "hit_rate_device": Metric(
        "ratio", "interval", "tokens served from the device / prompt tokens admitted"
    ),
    "hit_rate_host": Metric(
        "ratio", "interval", "tokens loaded back from the host / prompt tokens admitted"
    ),
    "hit_rate_storage": Metric(
        "ratio", "interval", "tokens fetched from storage / prompt tokens admitted"
    ),
    "storage_used_pages": Metric("pages", "last", "pages that storage has, of all components"),
    "storage_moves_in_flight": Metric(
        "moves", "last", "persists and prefetches begun and not yet over"
    ),
    "ranks_copies_apart": Metric(
        "copies", "last", "copies that have run on some rank and not on all"
    ),
    "ranks_replies_apart": Metric(
        "moves", "last", "moves that storage has answered on some rank and not on all"
    ),
    "ranks_rss_bytes": Metric(
        "bytes",
        "last",
        "resident memory of all ranks' processes; pages that they share count for each",
    ),
    "ranks_pss_bytes": Metric("bytes", "last", "what all ranks' processes have resident together"),
    "copies_in_flight": Metric("copies", "last", "copies issued and not yet acknowledged"),
    "rss_bytes": Metric(
        "bytes", "last", "resident memory of this process, measured whatever the clock"
    ),
    "pss_bytes": Metric("bytes", "last", "this process's share of the pages that it has resident"),
    "weight_bytes": Metric("bytes", "last", "weights of the computed model"),
    "device_tensor_bytes": Metric("bytes", "last", "tensors behind the device pools"),
    "host_tensor_bytes": Metric("bytes", "last", "tensors behind the host pools"),
    "pinned_bytes": Metric("bytes", "last", "host memory that is pinned for a GPU"),
    "allocator_bytes": Metric("bytes", "last", "what torch has allocated on the GPU"),
    "violations": Metric("violations", "total", "violations found so far"),
    "in_flight_requests": Metric("requests", "last", "sent and not yet ended (`load`)"),
    "server_up": Metric(
        "", "last", "1 if the server answered when it was looked at, else 0 (`load`)"
    ),
    **_server(),
}
