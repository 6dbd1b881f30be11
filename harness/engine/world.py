"""One world: clients, a scheduler, a cache, copy streams, and a clock that picks what is next.

Invariant: the world's own state is all there is; the same settings, workload and picker give the
same events, and `digest` says so.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from cache.config import Tier
from cache.contract import Cache
from cache.transfers import CopyState
from harness.engine.bell import Bell
from harness.engine.clients import Clients, Load
from harness.engine.compute import Compute
from harness.engine.executor import Executor, Modelled
from harness.engine.job import Job
from harness.engine.scheduler import Limits, Scheduler
from harness.engine.storage_streams import StorageLink, StorageStreams
from harness.engine.streams import CopyStreams, Streams
from harness.engine.troubles import TroublePlan
from harness.explore.kernel import Ended, Kernel, Picker, Signal
from workloads.request import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Grain:
    """How finely other events may come between: the scheduler's own order, or any two steps of an
    admission (`fine`); whether arrivals keep their order; how many outcomes a copy has."""

    fine: bool = False
    scattered: bool = False
    copy_outcomes: int = 1


class Front(Protocol):
    """Who sends requests to the scheduler."""

    def start(self) -> None:
        """Spawn what keeps the world going until the last request has ended."""

    def job_ended(self, job: Job) -> None:
        """The server has answered, refused or dropped `job`."""


class World:
    """Made for one run. `on_accept(job)` is told of every job that is not rejected, in order of
    sending, `on_job(job)` of every job that ends, `on_gap(seconds, count)` of
    the time between two tokens of `count` answers.

    Requests come from `sessions`, or from what `front` makes of the kernel and the scheduler;
    forwards are carried out by what `executor` makes of the kernel, or take modelled time; copies
    run on modelled streams, or on what `streams` makes of the kernel and of the signal that one has
    landed; storage is reached by `link`, or by what `storage` makes of the same two."""

    def __init__(
        self,
        cache: Cache,
        compute: Compute,
        sessions: Iterable[Session],
        *,
        limits: Limits,
        load: Load,
        vocab_size: int,
        grain: Grain,
        link: StorageLink | None = None,
        trouble: TroublePlan | None = None,
        front: Callable[[Kernel, Scheduler], Front] | None = None,
        executor: Callable[[Kernel], Executor] | None = None,
        streams: Callable[[Kernel, Signal], CopyStreams] | None = None,
        storage: Callable[[Kernel, Signal], StorageStreams] | None = None,
        on_accept: Callable[[Job], None],
        on_job: Callable[[Job], None],
        on_gap: Callable[[float, int], None],
    ) -> None:
        self.cache = cache
        self.kernel = Kernel()
        self._on_job = on_job
        self._digest = blake2b(digest_size=8)
        wake = Bell("scheduler.wake")
        self.streams: CopyStreams = (
            streams(self.kernel, wake)
            if streams is not None
            else Streams(self.kernel, cache, compute, wake, outcomes=grain.copy_outcomes)
        )
        self.storage: StorageStreams = (
            storage(self.kernel, wake)
            if storage is not None
            else StorageStreams(self.kernel, cache, link or StorageLink(), wake, plan=trouble)
        )
        self.scheduler = Scheduler(
            self.kernel,
            cache,
            compute,
            self.streams,
            self.storage,
            wake,
            limits,
            executor=executor(self.kernel) if executor else Modelled(self.kernel, compute),
            fine=grain.fine,
            on_accept=on_accept,
            on_end=self._job_ended,
            on_gap=on_gap,
        )
        self.clients: Front = (
            front(self.kernel, self.scheduler)
            if front is not None
            else Clients(
                self.kernel,
                self.scheduler,
                sessions,
                load,
                page_size=cache.config.page_size,
                vocab_size=vocab_size,
                scattered=grain.scattered,
            )
        )

    def run(self, picker: Picker, *, step_limit: int) -> Ended:
        """Run until every request has ended. Call `rest` afterwards if it has."""
        self.kernel.spawn("scheduler", self.scheduler.serve(), daemon=True)
        self.streams.start()
        self.storage.start()
        self.clients.start()
        return self.kernel.run(picker, step_limit=step_limit)

    def rest(self) -> None:
        """Let what is still in flight land, as it would with nothing else to do."""
        self._rest_copies()
        self.storage.rest()

    def _rest_copies(self) -> None:
        transfers = self.cache.transfers
        self.streams.drain()
        while len(transfers):
            for tier in Tier:
                while (copy := transfers.next_to_acknowledge(tier)) is not None:
                    assert copy.state is not CopyState.QUEUED
                    self.cache.acknowledge(copy)
                self.streams.drain()

    @property
    def digest(self) -> str:
        """Over every job's end: who, when, what was hit, what became of it."""
        return self._digest.hexdigest()

    def _job_ended(self, job: Job) -> None:
        assert job.status is not None
        moments = (job.sent_s, job.first_token_s, job.end_s)
        nanoseconds = tuple(round(moment * 1e9) for moment in moments)
        tokens: tuple[int, ...] = (
            job.prompt_len,
            job.generated,
            job.device_tokens,
            job.host_tokens,
        )
        if self.cache.storage is not None:
            tokens += (job.storage_tokens,)
        facts = (job.name, job.status.value, nanoseconds, tokens)
        self._digest.update(repr(facts).encode())
        self._on_job(job)
        self.clients.job_ended(job)
