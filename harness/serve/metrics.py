"""The text of `/metrics`, under SGLang's names, so that dashboards made for it work.

What a server does not have (a host tier, storage, a sliding window) has no sample: absent is not
zero. Numbers are those of one instant between two steps of the engine.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from cache.config import Component, Tier
from harness.engine.job import JobStatus
from harness.serve.latencies import Latencies
from harness.serve.meters import Snapshot


def exposition(
    snapshot: Snapshot, latencies: Latencies, *, model_name: str, storage: bool
) -> bytes:
    """In Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(_Families(snapshot, model_name, storage))
    return generate_latest(registry) + generate_latest(latencies.registry)


class _Families(Collector):
    def __init__(self, snapshot: Snapshot, model_name: str, storage: bool) -> None:
        self._at = snapshot
        self._model_name = model_name
        self._storage = storage

    def collect(self) -> Iterator[Metric]:
        yield from self._load()
        yield from self._pools()
        yield from self._requests()
        yield from self._tiers()

    def _load(self) -> Iterator[Metric]:
        at = self._at
        yield self._gauge("num_running_reqs", "Requests in prefill or decode.", at.running)
        yield self._gauge("num_queue_reqs", "Requests that wait for admission.", at.queued)
        yield self._gauge("page_size", "Tokens of a page.", at.page_size)
        yield self._counter(
            "kvtorture:violations", "Broken promises of the cache, seen by the oracles.",
            at.violations,
        )  # fmt: skip

    def _pools(self) -> Iterator[Metric]:
        at = self._at
        for (tier, component), pool in at.pools.items():
            if tier is not Tier.DEVICE:
                continue
            size, name = at.page_size, component.name.lower()
            if component is Component.FULL:
                name = "kv"
            elif component is Component.MAMBA:
                size = 1  # a slot is a state, whatever it stands for
            yield self._gauge(f"{name}_available_tokens", "Free.", pool.free * size)
            yield self._gauge(f"{name}_evictable_tokens", "Cached.", pool.evictable * size)
            yield self._gauge(f"{name}_used_tokens", "In use.", pool.used * size)
            if component is Component.FULL:
                usage = pool.used / pool.total
                yield self._gauge("max_total_num_tokens", "Of the pool.", pool.total * size)
                yield self._gauge("token_usage", "Share of the pool in use.", usage)
        host = at.pools.get((Tier.HOST, Component.FULL))
        if host is not None:
            used = (host.total - host.free) * at.page_size
            total = host.total * at.page_size
            yield self._gauge("hicache_host_used_tokens", "In the host tier.", used)
            yield self._gauge("hicache_host_total_tokens", "Of the host tier.", total)

    def _requests(self) -> Iterator[Metric]:
        served = self._at.served
        cached = {"device": served.device_tokens, "host": served.host_tokens}
        if self._storage:
            cached["storage"] = served.storage_tokens
        if not any(pool[0] is Tier.HOST for pool in self._at.pools):
            del cached["host"]
        whole = served.ended[JobStatus.COMPLETED]
        yield self._counter("prompt_tokens", "Prefilled or hit.", served.prompt_tokens)
        yield self._counter("generation_tokens", "Answered.", served.output_tokens)
        yield self._counter("num_requests", "Requests completed.", whole)
        yield self._counter(
            "num_aborted_requests", "Requests whose client left.", served.ended[JobStatus.ABORTED]
        )
        yield self._counter(
            "kvtorture:rejected_requests", "Requests that could never have run.",
            served.ended[JobStatus.REJECTED],
        )  # fmt: skip
        family = CounterMetricFamily(
            "sglang:cached_tokens",
            "Prompt tokens that were hits, by tier.",
            labels=["model_name", "cache_source"],
        )
        for source, tokens in cached.items():
            family.add_metric([self._model_name, source], tokens)
        yield family
        hit = sum(cached.values()) / served.prompt_tokens if served.prompt_tokens else 0.0
        yield self._gauge("cache_hit_rate", "Hit tokens / prompt tokens, since the start.", hit)

    def _tiers(self) -> Iterator[Metric]:
        at = self._at
        family = CounterMetricFamily(
            "sglang:evicted_tokens",
            "Tokens that left the device for want of room.",
            labels=["model_name", "cache_type"],
        )
        for component, tokens in at.evicted_tokens.items():
            family.add_metric([self._model_name, component.name.lower()], tokens)
        yield family
        if any(tier is Tier.HOST for tier, _ in at.pools):
            yield self._counter("load_back_tokens", "Host to device.", at.loaded_tokens)
            yield self._counter("hicache_backup_tokens", "Device to host.", at.backed_up_tokens)
            yield self._counter(
                "kvtorture:host_evicted_tokens", "Left the host tier.", at.host_evicted_tokens
            )
        if self._storage:
            yield self._counter("prefetched_tokens", "Storage to host.", at.prefetched_tokens)
            yield self._counter("backuped_tokens", "Host to storage.", at.persisted_tokens)

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"sglang:{name}", text, labels=["model_name"])
        family.add_metric([self._model_name], value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        full = name if ":" in name else f"sglang:{name}"
        family = CounterMetricFamily(full, text, labels=["model_name"])
        family.add_metric([self._model_name], value)
        return family
