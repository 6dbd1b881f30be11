"""The names a run's time series may use, with unit and meaning.

A name that is not here cannot be recorded: a column nobody has defined is a column nobody can read.
"""

from typing import NamedTuple


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


TIMESERIES: dict[str, Metric] = {
    **_pool("device", "full"),
    **_pool("device", "swa"),
    **_pool("device", "mamba"),
    **_pool("host", "full"),
    **_pool("host", "swa"),
    **_pool("host", "mamba"),
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
    "copies_in_flight": Metric("copies", "last", "copies issued and not yet acknowledged"),
    "rss_bytes": Metric(
        "bytes", "last", "resident memory of this process, measured whatever the clock"
    ),
    "violations": Metric("violations", "total", "violations found so far"),
}
