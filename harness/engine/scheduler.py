"""A continuous-batching scheduler: acknowledge what has landed, admit, run one batch.

One coroutine, as on a single scheduler thread. With the fine grain every admission is a task of its
own, so anything may come between two of its steps. Invariant: every submitted job ends exactly
once, and `on_end` is told.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from cache.config import MAMBA, Tier
from cache.contract import Cache
from cache.keys import pages_of
from cache.table import PageTable
from cache.transfers import Copy
from harness.engine.admission import Admission, Verdict
from harness.engine.bell import Bell
from harness.engine.compute import Compute
from harness.engine.executor import Executor
from harness.engine.forward import Forward
from harness.engine.job import Job, JobState, JobStatus
from harness.engine.overlap import Overlap
from harness.engine.prefetching import Prefetching, storage_tokens
from harness.engine.roster import Roster
from harness.engine.storage_streams import StorageStreams
from harness.engine.streams import CopyStreams
from harness.engine.windows import Windows
from harness.explore.kernel import FINISHED, Kernel, Point


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server is told. Lengths in tokens."""

    context_length: int = 32768
    chunked_prefill_size: int = 8192
    max_running_requests: int = 256
    new_token_ratio: float = 0.4  # the share of promised answers that admission keeps room for
    match_s: float = 0.0  # scheduler time for one admission
    overlap: Overlap = Overlap.NONE  # of load-backs and the prefills that count on them


class Scheduler:
    def __init__(
        self,
        kernel: Kernel,
        cache: Cache,
        compute: Compute,
        streams: CopyStreams,
        storage: StorageStreams,
        wake: Bell,
        limits: Limits,
        *,
        executor: Executor,
        fine: bool,
        on_accept: Callable[[Job], None],
        on_end: Callable[[Job], None],
        on_gap: Callable[[float, int], None],
    ) -> None:
        assert limits.chunked_prefill_size >= cache.config.page_size, "a chunk holds a page"
        self._kernel = kernel
        self._cache = cache
        self._compute = compute
        self._streams = streams
        self._storage = storage
        self._wake = wake
        self._limits = limits
        self._fine = fine
        self._on_accept = on_accept
        self._on_end = on_end
        self._admission = Admission(cache, self._step)
        self._aborts: list[Job] = []
        self._attempts = 0
        self._agreed = cache.agreed  # agreements that have been paid for
        self._real = cache.meets  # so agreements take what time they take
        self._no_room = False  # an admission said so, and nothing has changed since
        self._one_by_one = False  # the admissions of the fine grain, for one turn
        self.roster = Roster(cache.config.page_size)
        self._windows = Windows(cache.config, self.roster)
        self._prefetching = Prefetching(kernel, cache, self.roster, wake)
        self.forward = Forward(
            kernel,
            cache,
            executor,
            self.roster,
            chunk_tokens=limits.chunked_prefill_size,
            finish=self._finish,
            give_up=self._give_up,
            land=self._land,
            lose=self._lose,
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
        self._prefetching.begin(job)
        self._storage.kick()
        self._wake.fire()

    def abort(self, job: Job) -> None:
        """The client has gone away: at once if the job waits, else when its batch is over."""
        if job.state is JobState.DONE:
            return
        job.abort_asked, job.aborted_in = True, job.state
        if job.state is JobState.PREFETCHING:
            del self.roster.prefetching[job.number]
            self._end(job, JobStatus.ABORTED)
        elif job.state is JobState.QUEUED:
            self.roster.dequeue(job)
            self._end(job, JobStatus.ABORTED)
        else:
            self._aborts.append(job)
        self._wake.fire()

    async def serve(self) -> None:
        """Run for ever, as a daemon: the clients keep the world alive."""
        while True:
            await self._kernel.point("scheduler.turn")
            self._wake.clear()
            self._cache.begin_turn()
            await self._acknowledge()
            self._collect_aborted()
            self._prefetching.let_go_on()
            await self._admit()
            self._kick()
            idle = not await self.forward.run() and not self.forward.pressure.relieve()
            self._kick()  # planning may have issued backups to make room
            self._one_by_one, self._no_room = self._in_each_others_way(), False
            if idle and not self._one_by_one:
                await self._wake.heard(self._kernel, "scheduler.idle")

    def _in_each_others_way(self) -> bool:
        """Whether there was no room for a job but for the admissions of others, which are over."""
        return self._no_room and not self.roster.running and not self._cache.in_flight()

    def _kick(self) -> None:
        self._streams.kick()
        self._storage.kick()

    # -- copies --------------------------------------------------------------------------------

    async def _acknowledge(self) -> None:
        await self._acknowledge_storage()
        await self._acknowledge_copies()
        roster = self.roster
        for job in [job for job in roster.prefill if job.table is not None and job.table.lost]:
            self._lose(job)
        if not roster.loading and not roster.stalled:
            return
        for job in list(roster.loading.values()):
            self._look_at_waits(job)
        for job in sorted(roster.stalled.values(), key=lambda j: j.order):
            self.forward.pressure.resume(job)

    async def _land(self, copies: Sequence[Copy]) -> None:
        """A forward that began ahead of these is over: nothing goes on until they are, too."""
        while any(copy.in_flight for copy in copies):
            self._wake.clear()
            await self._acknowledge_copies()
            if any(copy.in_flight for copy in copies):
                await self._wake.heard(self._kernel, "forward.land")

    async def _acknowledge_copies(self) -> None:
        transfers = self._cache.transfers
        if len(transfers):
            for tier in Tier:
                while (copy := transfers.next_to_acknowledge(tier)) is not None:
                    await self._step("copy.acknowledge", ("copy", copy.number))
                    self._cache.acknowledge(copy)
        if agreements := self._cache.agreed - self._agreed:
            self._agreed += agreements
            if not self._real:
                seconds = agreements * self._compute.agreement_s()
                await self._kernel.pause(seconds, "ranks.agree")

    async def _acknowledge_storage(self) -> None:
        storage = self._cache.storage
        while storage is not None and (moves := storage.replied()):
            for move in moves:
                await self._step("storage.acknowledge", ("storage", move.kind, move.number))
                if move.in_flight:  # not ended by a client that left meanwhile
                    storage.acknowledge(move)

    def _look_at_waits(self, job: Job) -> None:
        assert job.table is not None
        if job.table.coming:
            return
        if job.table.lost:
            self._lose(job)
        else:
            del self.roster.loading[job.number]
            self._to_prefill(job)

    def _lose(self, job: Job) -> None:
        """A load-back of `job` has failed: it queues again, to be given what is still there."""
        assert job.table is not None
        self.roster.remove(job)
        self._cache.abort(job.table)
        if not job.chunks:
            job.loaded_s = -1.0  # it began to compute ahead, and for nothing
        self.forward.pressure.requeue(job)

    # -- admission -----------------------------------------------------------------------------

    async def _admit(self) -> None:
        roster, limits = self.roster, self._limits
        while roster.queue and roster.running < limits.max_running_requests and not self._no_room:
            if roster.prefill_backlog() >= limits.chunked_prefill_size:
                return
            if not self._windows.admits(roster.queue[0]):
                return
            job = roster.to_admitting()
            self._prefetching.conclude(job)
            if job.matched_s < 0:
                job.admitted_s = self._kernel.now  # attempts without room were queueing
            if self._fine:
                self._attempts += 1
                self._kernel.spawn(f"{job.name}#{self._attempts}", self._attempt_fine(job))
                if self._one_by_one:
                    return
                continue
            if limits.match_s:
                await self._kernel.pause(limits.match_s, "scheduler.match", ("request", job.name))
            await self._kernel.point("admit", ("request", job.name))
            if await self._attempt(job) is Verdict.NO_ROOM:
                return

    async def _attempt_fine(self, job: Job) -> None:
        self._no_room = await self._attempt(job) is Verdict.NO_ROOM
        self._kick()
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
            job.storage_tokens = storage_tokens(job.prefetch, job.table)
            job.host_tokens = job.table.host_tokens - job.storage_tokens
        if self._has_to_wait(job.table):
            self.roster.to_loading(job)
        else:
            self._to_prefill(job)

    def _has_to_wait(self, table: PageTable) -> bool:
        """Whether compute must not begin ahead of the load-backs. A state is copied for the request
        when it has been acknowledged, so nobody begins ahead of one."""
        if self._limits.overlap is Overlap.NONE:
            return bool(table.waits)
        return any(part.component is MAMBA for copy in table.coming for part in copy.parts)

    def _to_prefill(self, job: Job) -> None:
        if job.loaded_s < 0:
            job.loaded_s = self._kernel.now
        self.roster.to_prefill(job)

    def _reserved_pages(self, job: Job) -> int:
        """Pages for the answers; for that of `job` no more than an empty pool would have."""
        ratio, config = self._limits.new_token_ratio, self._cache.config
        own = int((job.output_len - job.generated) * ratio) // config.page_size
        most = config.full.device - pages_of(job.key.tokens + 1, config.page_size)
        return min(own, most) + self.roster.promised_pages(ratio)

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
        self._prefetching.cancel(job)
        job.table = None
        self._on_end(job)

    def _refusal(self, job: Job) -> str:
        context = self._limits.context_length
        if job.prompt_len >= context:
            return f"{job.prompt_len} prompt tokens do not fit a context of {context}"
        longest = min(job.prompt_len + job.output_len, context)
        config, windows = self._cache.config, self._windows
        pages, capacity = pages_of(longest, config.page_size), config.full.device
        if pages > capacity:
            return f"{pages} pages do not fit a device pool of {capacity}"
        if windows.need(longest) > windows.slots:
            return f"a window and the pages after it do not fit {windows.slots} SWA slots"
        return ""
