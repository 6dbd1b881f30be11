"""A continuous-batching scheduler: acknowledge what has landed, admit, run one batch.

One coroutine, as on a single scheduler thread. With the fine grain every admission is a task of its
own, so anything may come between two of its steps. Invariant: every submitted job ends exactly
once, and `on_end` is told.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cache.config import Component, Tier
from cache.contract import Cache
from cache.keys import pages_of
from cache.transfers import CopyState
from harness.engine.admission import Admission, Verdict
from harness.engine.compute import Compute
from harness.engine.forward import Forward
from harness.engine.job import Job, JobState, JobStatus
from harness.engine.roster import Roster
from harness.engine.streams import Streams
from harness.explore.kernel import FINISHED, Kernel, Point, Signal


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server is told. Lengths in tokens."""

    context_length: int = 32768
    chunked_prefill_size: int = 8192
    max_running_requests: int = 256
    new_token_ratio: float = 0.4  # the share of promised answers that admission keeps room for
    match_s: float = 0.0  # scheduler time for one admission


class Scheduler:
    def __init__(
        self,
        kernel: Kernel,
        cache: Cache,
        compute: Compute,
        streams: Streams,
        wake: Signal,
        limits: Limits,
        *,
        fine: bool,
        on_accept: Callable[[Job], None],
        on_end: Callable[[Job], None],
        on_gap: Callable[[float, int], None],
    ) -> None:
        self._kernel = kernel
        self._cache = cache
        self._streams = streams
        self._wake = wake
        self._limits = limits
        self._fine = fine
        self._on_accept = on_accept
        self._on_end = on_end
        self._admission = Admission(cache, self._step)
        self._aborts: list[Job] = []
        self._attempts = 0
        self._one_by_one = False  # in the fine grain, after an admission found no room
        self.roster = Roster(cache.config.page_size)
        self.forward = Forward(
            kernel,
            cache,
            compute,
            self.roster,
            chunk_tokens=limits.chunked_prefill_size,
            finish=self._finish,
            give_up=self._give_up,
            on_gap=on_gap,
        )

    def submit(self, job: Job) -> None:
        """A request has arrived. What can never run is rejected at once, as a server would."""
        job.error = self._refusal(job)
        if job.error:
            self._end(job, JobStatus.REJECTED)
            return
        job.output_len = max(1, min(job.output_len, self._limits.context_length - job.prompt_len))
        self._on_accept(job)
        self.roster.enqueue(job)
        self._wake.fire()

    def abort(self, job: Job) -> None:
        """The client has gone away: at once if the job waits, else when its batch is over."""
        if job.state is JobState.DONE:
            return
        job.abort_asked, job.aborted_in = True, job.state
        if job.state is JobState.QUEUED:
            self.roster.dequeue(job)
            self._end(job, JobStatus.ABORTED)
        else:
            self._aborts.append(job)
        self._wake.fire()

    async def serve(self) -> None:
        """Run for ever, as a daemon: the clients keep the world alive."""
        while True:
            await self._kernel.point("scheduler.turn")
            await self._acknowledge()
            self._collect_aborted()
            await self._admit()
            self._streams.kick()
            if await self.forward.run():
                self._streams.kick()
            elif not self.forward.pressure.relieve():
                await self._kernel.wait(self._wake, "scheduler.idle")

    # -- copies --------------------------------------------------------------------------------

    async def _acknowledge(self) -> None:
        transfers = self._cache.transfers
        if not len(transfers) and not self.roster.loading and not self.roster.stalled:
            return
        for tier in Tier:
            while (copy := transfers.next_to_acknowledge(tier)) is not None:
                await self._step("copy.acknowledge", ("copy", copy.number))
                self._cache.acknowledge(copy)
        for job in list(self.roster.loading.values()):
            self._look_at_waits(job)
        for job in sorted(self.roster.stalled.values(), key=lambda j: j.order):
            self.forward.pressure.resume(job)

    def _look_at_waits(self, job: Job) -> None:
        assert job.table is not None
        if any(copy.in_flight for copy in job.table.waits):
            return
        del self.roster.loading[job.number]
        if any(copy.state is CopyState.FAILED for copy in job.table.waits):
            self._cache.abort(job.table)
            self.forward.pressure.requeue(job)
        else:
            self._to_prefill(job)

    # -- admission -----------------------------------------------------------------------------

    async def _admit(self) -> None:
        roster, limits = self.roster, self._limits
        while roster.queue and roster.running < limits.max_running_requests:
            if roster.prefill_backlog() >= limits.chunked_prefill_size:
                return
            if self._one_by_one and roster.admitting:
                return
            job = roster.to_admitting()
            if job.matched_s < 0:
                job.admitted_s = self._kernel.now  # attempts without room were queueing
            if self._fine:
                self._attempts += 1
                self._kernel.spawn(f"{job.name}#{self._attempts}", self._attempt_fine(job))
                return
            if limits.match_s:
                await self._kernel.pause(limits.match_s, "scheduler.match", ("request", job.name))
            await self._kernel.point("admit", ("request", job.name))
            if await self._attempt(job) is Verdict.NO_ROOM:
                return

    async def _attempt_fine(self, job: Job) -> None:
        verdict = await self._attempt(job)
        self._one_by_one = verdict is Verdict.NO_ROOM
        self._streams.kick()
        alone = not self.roster.running and not len(self._cache.transfers)
        if verdict is not Verdict.NO_ROOM or alone:
            self._wake.fire()

    async def _attempt(self, job: Job) -> Verdict:
        verdict = await self._admission.admit(job, lambda: self._reserved_pages(job))
        del self.roster.admitting[job.number]
        if verdict is not Verdict.ADMITTED and job.abort_asked:
            self._end(job, JobStatus.ABORTED)
        elif verdict is not Verdict.ADMITTED:
            self.roster.enqueue(job)
        elif job.abort_asked:
            self._give_up(job)
        else:
            self._start(job)
        return verdict

    def _start(self, job: Job) -> None:
        assert job.table is not None
        if job.matched_s < 0:
            job.matched_s = self._kernel.now
        if not job.chunks:
            job.device_tokens = job.table.device_tokens
            job.host_tokens = job.table.host_tokens
        if job.table.waits:
            self.roster.to_loading(job)
        else:
            self._to_prefill(job)

    def _to_prefill(self, job: Job) -> None:
        if job.loaded_s < 0:
            job.loaded_s = self._kernel.now
        self.roster.to_prefill(job)

    def _reserved_pages(self, job: Job) -> int:
        ratio = self._limits.new_token_ratio
        own = int((job.output_len - job.generated) * ratio) // self._cache.config.page_size
        return own + self.roster.promised_pages(ratio)

    def _step(self, name: str, obj: object) -> Awaitable[None]:
        """A step inside an admission or a drain: a choice in the fine grain, else only told."""
        kernel = self._kernel
        if self._fine:
            return kernel.point(name, obj)
        if kernel.on_step is not None and kernel.current is not None:
            kernel.on_step(kernel.current, Point(name, obj))
        return FINISHED

    # -- ends ----------------------------------------------------------------------------------

    def _finish(self, job: Job) -> None:
        assert job.table is not None
        self._cache.finish(job.table, job.key)
        self._end(job, JobStatus.COMPLETED)

    def _give_up(self, job: Job) -> None:
        """An aborted job that holds pages: what it computed is inserted, the rest given back."""
        table = job.table
        assert table is not None
        if table.written > table.hit_tokens:
            self._cache.finish(table, job.key)
        else:
            self._cache.abort(table)
        self._end(job, JobStatus.ABORTED)

    def _collect_aborted(self) -> None:
        aborts, self._aborts = self._aborts, []
        for job in aborts:
            if job.state is JobState.DONE or job.number in self.roster.admitting:
                continue  # over already, or its admission will see to it
            if job.state is JobState.QUEUED:
                self.roster.dequeue(job)
                self._end(job, JobStatus.ABORTED)
                continue
            if job.number in self.roster.decoder.jobs:
                self.forward.write_decoded(job)
            self.roster.remove(job)
            self._give_up(job)

    def _end(self, job: Job, status: JobStatus) -> None:
        job.state, job.status, job.end_s = JobState.DONE, status, self._kernel.now
        job.table = None
        self._on_end(job)

    def _refusal(self, job: Job) -> str:
        context = self._limits.context_length
        if job.prompt_len >= context:
            return f"{job.prompt_len} prompt tokens do not fit a context of {context}"
        longest = min(job.prompt_len + job.output_len, context)
        config = self._cache.config
        pages, capacity = pages_of(longest, config.page_size), config.full.device
        if pages > capacity:
            return f"{pages} pages do not fit a device pool of {capacity}"
        if Component.SWA in config.components and config.pools(Component.SWA).device < min(
            pages, config.window_pages + 2
        ):
            return f"a window and a page do not fit {config.pools(Component.SWA).device} SWA slots"
        return ""
