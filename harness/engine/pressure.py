"""What happens when memory runs out: wait for what is in flight, else the youngest gives way.

Invariant: a job that makes room for another came after it, so the oldest always gets on.
"""

from collections.abc import Callable

from cache.contract import Cache
from harness.engine.job import Job
from harness.engine.roster import Roster


class Pressure:
    """`on_requeue(job)` puts a job that lost its pages back into the queue."""

    def __init__(self, cache: Cache, roster: Roster, write_decoded: Callable[[Job], None]) -> None:
        self._cache = cache
        self._roster = roster
        self._write_decoded = write_decoded
        self.retractions = 0

    def grow(self, job: Job) -> bool:
        """Room for one more token of `job`, at the price of younger jobs if need be. False when
        copies in flight will bring room, or everybody else is older."""
        while not self._extend(job):
            if self._cache.in_flight():
                return False
            victim = self._youngest()
            if victim is job or victim.order < job.order:
                return False
            self.retract(victim)
        return True

    def resume(self, job: Job) -> bool:
        """Let a stalled job decode again if it can have its page now."""
        if not self._extend(job):
            return False
        del self._roster.stalled[job.number]
        self._roster.to_decode(job)
        return True

    def relieve(self) -> bool:
        """Nothing can run: unless copies in flight will change that, the youngest gives way."""
        roster = self._roster
        if self._cache.in_flight() or roster.admitting or not (roster.stalled or roster.prefill):
            return False
        self.retract(self._youngest())
        for job in sorted(roster.stalled.values(), key=lambda j: j.order):
            self.resume(job)
        return True

    def retract(self, job: Job) -> None:
        """Take a job's pages away and queue it again. What it has computed stays cached for as
        long as room allows."""
        if job.number in self._roster.decoder.jobs:
            self._write_decoded(job)
        self._roster.remove(job)
        assert job.table is not None
        self._cache.finish(job.table, job.key)
        self.retractions += 1
        job.preemptions += 1
        self.requeue(job)

    def requeue(self, job: Job) -> None:
        """`job` has lost its table; it will prefill what it knows and go on from there."""
        job.requeues += 1
        job.table = None
        job.know(job.generated)
        self._roster.enqueue(job)

    def _extend(self, job: Job) -> bool:
        """A page for the next token of `job`. Where a window is what is short, what it has written
        is committed first: a job that does not lets two windows grow, the one that it shares with
        the tree and its own."""
        cache, table = self._cache, job.table
        assert table is not None
        room = cache.extend(table, table.written + 1)
        if any(room.short[1:]) and table.written // table.page_size > table.shared:
            cache.commit(table, job.key)
            room = cache.extend(table, table.written + 1)
        return room.enough

    def _youngest(self) -> Job:
        return max(self._roster.holders(), key=lambda job: job.order)
