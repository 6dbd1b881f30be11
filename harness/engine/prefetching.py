"""Jobs that wait for storage before they may be admitted.

A job's prefetch is asked for when it arrives. Under `best_effort` it queues at once and takes what
has landed when its turn comes; else it waits here until the policy lets it go on. Invariant: a job
is admitted only after its prefetch has been concluded, and none that has ended leaves one behind.
"""

from cache.config import PrefetchPolicy
from cache.contract import Cache
from cache.storage_moves import Prefetch
from cache.table import PageTable
from harness.engine.job import Job
from harness.engine.roster import Roster
from harness.explore.kernel import Kernel, Signal


class Prefetching:
    """Where the cache has no storage every job queues at once."""

    def __init__(self, kernel: Kernel, cache: Cache, roster: Roster, wake: Signal) -> None:
        self._kernel = kernel
        self._storage = cache.storage
        self._roster = roster
        self._wake = wake

    def begin(self, job: Job) -> None:
        """A job has arrived."""
        storage = self._storage
        if storage is None:
            self._roster.enqueue(job)
            return
        job.prefetch = storage.prefetch(job.key, job.name)
        if storage.may_go_on(job.prefetch, 0.0):
            self._roster.enqueue(job)
            return
        self._roster.to_prefetching(job)
        if storage.config.prefetch_policy is PrefetchPolicy.TIMEOUT:
            self._kernel.spawn(f"T{job.number}", self._ring(job.prefetch), daemon=True)

    def let_go_on(self) -> None:
        """Whoever has waited long enough queues for admission."""
        storage = self._storage
        if storage is None:
            return
        for job in list(self._roster.prefetching.values()):
            assert job.prefetch is not None
            if storage.may_go_on(job.prefetch, self._kernel.now - job.sent_s):
                del self._roster.prefetching[job.number]
                self._roster.enqueue(job)

    def conclude(self, job: Job) -> None:
        """A job is about to be admitted."""
        if self._storage is not None and job.prefetch is not None:
            self._storage.conclude(job.prefetch)

    def cancel(self, job: Job) -> None:
        """A job that was not admitted has ended."""
        if self._storage is not None and job.prefetch is not None:
            self._storage.cancel(job.prefetch)

    async def _ring(self, prefetch: Prefetch) -> None:
        assert self._storage is not None
        timeout_s = self._storage.prefetches.timeout_s(prefetch)
        await self._kernel.pause(timeout_s, "prefetch.timeout", ("storage", prefetch.number))
        self._wake.fire()


def storage_tokens(prefetch: Prefetch | None, table: PageTable) -> int:
    """Of a hit, what this job's prefetch had brought and a load-back then fetched from the host."""
    if prefetch is None:
        return 0
    return min(prefetch.brought(table.hit_tokens), table.host_tokens)
