"""The latency histograms of a server's metrics, under SGLang's names, in seconds."""

from prometheus_client import CollectorRegistry, Histogram

from harness.engine.job import Job

_SECONDS = (
    0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80,
    100, 200, 400,
)  # fmt: skip
_GAPS = (
    0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1,
    0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8,
)  # fmt: skip


class Latencies:
    """Observed by the engine's thread, read by whoever scrapes `registry`."""

    def __init__(self, model_name: str) -> None:
        self.registry = CollectorRegistry()
        self._model_name = model_name
        self._ttft = self._histogram(
            "sglang:time_to_first_token_seconds", "Time to the first token.", _SECONDS
        )
        self._gap = self._histogram(
            "sglang:inter_token_latency_seconds", "Time between two tokens of an answer.", _GAPS
        )
        self._e2e = self._histogram(
            "sglang:e2e_request_latency_seconds", "Time to the last token.", _SECONDS
        )

    def observe(self, job: Job) -> None:
        """A request is complete."""
        self._ttft.observe(job.first_token_s - job.sent_s)
        self._e2e.observe(job.end_s - job.sent_s)

    def gap(self, seconds: float, count: int) -> None:
        for _ in range(count):
            self._gap.observe(seconds)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        family = Histogram(name, text, ["model_name"], buckets=buckets, registry=self.registry)
        return family.labels(self._model_name)
