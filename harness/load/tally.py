"""From requests that have ended to the record of the run. One for a run, whoever sent them."""

from collections.abc import Callable
from math import nan
from typing import Protocol

from harness.load.ended import Ended
from harness.record.histogram import Histogram
from harness.record.requests import RequestRow
from harness.record.run import Recorder
from workloads.footprint import IdealCache
from workloads.request import Request


class Sink(Protocol):
    """Takes what users did."""

    def add(self, ended: Ended) -> None:
        """A request has ended."""
        ...

    def gap(self, seconds: float) -> None:
        """Between two chunks of an answer."""
        ...

    def gaps(self, seconds: Histogram) -> None:
        """Many of them."""
        ...


class Tally:
    """Counts of all phases; the recorder's are of the steady one. `on_answer` is told of every
    request that was answered."""

    def __init__(self, recorder: Recorder, *, page_size: int, warmup_requests: int) -> None:
        self._recorder = recorder
        self._page_size = page_size
        self._warmup = warmup_requests
        self._ideal = IdealCache(page_size)
        self.on_answer: Callable[[str], None] = lambda request_id: None
        self.ended = 0
        self.errors: dict[str, int] = {}
        self.completed = 0
        self.prompt_tokens = 0
        self.output_tokens = 0
        self.cached = dict.fromkeys(("device", "host", "storage"), 0)

    def add(self, ended: Ended) -> None:
        """Record one request."""
        self.ended += 1
        if ended.error:
            kind = ended.error.split(":")[0]
            self.errors[kind] = self.errors.get(kind, 0) + 1
        else:
            self.on_answer(ended.request_id)
            self.completed += 1
            self.prompt_tokens += ended.prompt_tokens
            self.output_tokens += ended.output_tokens
        for tier in self.cached:
            self.cached[tier] += getattr(ended, tier)
        self._recorder.request(self._row(ended))

    def gap(self, seconds: float) -> None:
        """Record the time between two chunks of an answer."""
        self._recorder.itl(seconds, 1)

    def gaps(self, seconds: Histogram) -> None:
        """Record many of them."""
        self._recorder.itl_s.merge(seconds)

    def _row(self, ended: Ended) -> RequestRow:
        whole, started = not ended.error, ended.first_ns >= 0
        ttft, e2e = ended.first_ns - ended.sent_ns, ended.end_ns - ended.sent_ns
        several = whole and ended.output_tokens > 1
        return RequestRow(
            request_id=ended.request_id,
            session_id=ended.session_id,
            turn=ended.turn,
            phase="warmup" if self.ended <= self._warmup else "steady",
            tenant=ended.tenant,
            scheduled_ns=ended.scheduled_ns,
            sent_ns=ended.sent_ns,
            first_token_ns=ended.first_ns,
            end_ns=ended.end_ns,
            prompt_tokens=ended.prompt_tokens,
            output_tokens=ended.output_tokens,
            cached_tokens_device=ended.device,
            cached_tokens_host=ended.host,
            cached_tokens_storage=ended.storage,
            eligible_tokens=(ended.prompt_tokens - 1) // self._page_size * self._page_size,
            ideal_tokens=self._ideal.add(_request(ended)),
            ttft_ms=ttft / 1e6 if started else nan,
            ttft_scheduled_ms=(ended.first_ns - ended.scheduled_ns) / 1e6 if started else nan,
            queue_ms=nan,
            match_ms=nan,
            load_ms=nan,
            prefill_ms=nan,
            tpot_ms=(e2e - ttft) / (ended.output_tokens - 1) / 1e6 if several else nan,
            e2e_latency_ms=e2e / 1e6 if whole else nan,
            status="completed" if whole else "rejected" if ended.refused else "failed",
            error=ended.error,
            verified=False,
        )


def _request(ended: Ended) -> Request:
    """What the ideal cache is told: answers come back in no prompt."""
    return Request(
        request_id=ended.request_id,
        session_id=ended.session_id,
        turn=ended.turn,
        prompt=ended.prompt,
        output=(),
        arrival_s=0.0,
        namespace=ended.namespace,
    )
