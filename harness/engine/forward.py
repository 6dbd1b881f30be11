"""Forward passes: chunks of prefill first, else one token for every decoding job.

    plan (pages for the chunk) -> execute (time passes) -> read, write, commit, slide

A prefill may begin ahead of load-backs. They have been acknowledged when it is over, and what was
computed for a job whose load-back failed is discarded: nothing of it is read, written or committed.
Invariant: a chunk's pages are its job's own from the plan until the commit.
"""

from collections.abc import Awaitable, Callable, Sequence

from cache.config import MAMBA
from cache.contract import Cache
from cache.transfers import Copy
from harness.engine.compute import Work, prefill_work
from harness.engine.executor import Chunk, Executor, Step
from harness.engine.job import Job
from harness.engine.overlap import OF_NOTHING, Ahead
from harness.engine.pressure import Pressure
from harness.engine.roster import Roster
from harness.explore.kernel import Kernel


class Forward:
    """`finish(job)` ends a job whose answer is complete, `give_up(job)` one whose client has left;
    `land(copies)` returns when these have been acknowledged, and `lose(job)` queues one anew whose
    load-back failed. `on_gap(seconds, count)` is told the time between two tokens of `count`
    answers."""

    def __init__(
        self,
        kernel: Kernel,
        cache: Cache,
        executor: Executor,
        roster: Roster,
        *,
        chunk_tokens: int,
        finish: Callable[[Job], None],
        give_up: Callable[[Job], None],
        land: Callable[[Sequence[Copy]], Awaitable[None]],
        lose: Callable[[Job], None],
        on_gap: Callable[[float, int], None],
    ) -> None:
        self._kernel = kernel
        self._cache = cache
        self._executor = executor
        self._roster = roster
        self._chunk_tokens = chunk_tokens
        self._finish = finish
        self._give_up = give_up
        self._land = land
        self._lose = lose
        self._on_gap = on_gap
        self._page_size = cache.config.page_size
        self._stateful = MAMBA in cache.config.components
        self._last_step_s = 0.0
        self.pressure = Pressure(cache, roster, self.write_decoded)
        self.batch_tokens = 0
        self.steps = 0

    async def run(self) -> bool:
        """One forward. False when there is nothing to run."""
        chunks = self._plan()
        if chunks:
            await self._prefill(chunks)
        elif self._roster.decoder:
            await self._decode()
        else:
            return False
        self.steps += 1
        return True

    def write_decoded(self, job: Job) -> None:
        """Bring the cache up to date with what a decoding job has computed."""
        assert job.table is not None
        decoder = self._roster.decoder
        written = decoder.written(job)
        if decoder.tick > job.joined:
            job.last_token_s = self._last_step_s
        job.know(decoder.generated(job))
        self._cache.write(job.table, job.key.prints(), written)
        self._cache.read(job.table, written)

    # -- prefill -------------------------------------------------------------------------------

    def _plan(self) -> list[Chunk]:
        chunks: list[Chunk] = []
        budget = self._chunk_tokens
        for job in self._roster.prefill:
            chunk = self._plan_chunk(job, budget) if budget > 0 else None
            if chunk is None:
                break  # whatever is short for it is short for those behind it
            chunks.append(chunk)
            budget -= chunk.stop - chunk.start
        return chunks

    def _plan_chunk(self, job: Job, budget: int) -> Chunk | None:
        """The next chunk of a job, as long as budget and room allow, with pages for it. All but
        the last end on a page. Where there are states, one ends where the prompt leaves what others
        have asked for: the state there is what they have in common."""
        assert job.table is not None
        start, end = job.table.written, job.key.tokens
        stop = min(end, start + budget)
        if self._stateful and start < job.table.branch < stop:
            stop = job.table.branch
        while True:
            if stop < end:
                stop = stop // self._page_size * self._page_size
            if stop <= start:
                return None
            capacity = end + 1 if stop == end else stop
            if self._cache.extend(job.table, capacity).enough:
                return Chunk(job, start, stop)
            stop = start + (stop - start) // 2

    async def _prefill(self, chunks: list[Chunk]) -> None:
        spans = ((start, stop) for _, start, stop in chunks)
        work = prefill_work(spans, self._cache.config.window)
        self.batch_tokens = work.prefill_tokens
        await self._executor.prefill(chunks, work, self._ahead(chunks))
        lost = [chunk for chunk in chunks if _lost(chunk.job)]
        for job, _, _ in lost:
            self._lose(job)
        for chunk in chunks:
            if chunk not in lost:
                await self._take_chunk(chunk)

    def _ahead(self, chunks: list[Chunk]) -> Ahead:
        coming: dict[int, Copy] = {}
        for job, _, _ in chunks:
            assert job.table is not None
            coming.update((copy.number, copy) for copy in job.table.coming)
        if not coming:
            return OF_NOTHING
        copies = [coming[number] for number in sorted(coming)]
        return Ahead(copies, lambda: self._land(copies))

    async def _take_chunk(self, chunk: Chunk) -> None:
        job, start, stop = chunk
        table, key = job.table, job.key
        assert table is not None
        job.chunks += 1
        self._cache.read(table, start)
        self._cache.write(table, key.prints(), stop)
        await self._kernel.point("chunk.commit", ("request", job.name))
        self._cache.commit(table, key)
        self._cache.slide(table, stop)
        if job.abort_asked:
            self._roster.remove(job)
            self._give_up(job)
        elif stop == key.tokens:
            self._roster.remove(job)
            self._first_token(job)

    def _first_token(self, job: Job) -> None:
        """The token that a prefill ends with: the first, or after a retraction the next."""
        job.generated += 1
        now = self._kernel.now
        if job.first_token_s < 0:
            job.first_token_s = now
        else:
            self._on_gap(now - job.last_token_s, 1)
        job.last_token_s = now
        if job.generated >= job.output_len:
            self._finish(job)
            return
        assert job.table is not None
        # Its pages are there already; a slot to keep a state in, where there are states, is not.
        self._cache.extend(job.table, job.table.written + 1)
        self._roster.to_decode(job)

    # -- decode --------------------------------------------------------------------------------

    async def _decode(self) -> None:
        decoder = self._roster.decoder
        count = len(decoder)
        self.batch_tokens = count
        work = Work(decode_requests=count, decode_context_tokens=decoder.context_tokens)
        steps: list[Step] = []
        if self._executor.computes:
            steps = [
                Step(job, decoder.written(job), decoder.generated(job))
                for job in decoder.jobs.values()
            ]
        await self._executor.decode(steps, work)
        self._count_gaps()
        # What is complete makes room, and must not be retracted for one that still grows.
        due = sorted(decoder.step(), key=lambda job: (not decoder.complete(job), job.order))
        for job in due:
            if job.number in decoder.jobs:  # not retracted for the sake of one before it
                self._take_token(job)

    def _take_token(self, job: Job) -> None:
        """A decoding job's page is full, or its answer complete."""
        assert job.table is not None
        self.write_decoded(job)
        decoder = self._roster.decoder
        if decoder.complete(job):
            decoder.leave(job)
            self._finish(job)
            return
        self._cache.slide(job.table, job.table.written)
        if self.pressure.grow(job):
            decoder.schedule(job)
        else:
            self._roster.to_stalled(job)

    def _count_gaps(self) -> None:
        """Before the step: those who joined since the last one had their last token elsewhere."""
        now, decoder = self._kernel.now, self._roster.decoder
        joined = decoder.joined_now()
        for job in joined:
            self._on_gap(now - job.last_token_s, 1)
        if len(decoder) > len(joined):
            self._on_gap(now - self._last_step_s, len(decoder) - len(joined))
        self._last_step_s = now


def _lost(job: Job) -> bool:
    assert job.table is not None
    return job.table.lost
