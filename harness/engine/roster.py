"""Where every job of the server stands.

Invariant: a job that is not DONE is in exactly one place here, the one its state names.
"""

from bisect import insort
from collections.abc import Iterator

from cache.keys import pages_of
from harness.engine.decoder import Decoder
from harness.engine.job import Job, JobState


class Roster:
    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self.prefetching: dict[int, Job] = {}  # not in the queue yet
        self.queue: list[Job] = []  # in order of service
        self.admitting: dict[int, Job] = {}
        self.loading: dict[int, Job] = {}
        self.prefill: list[Job] = []  # in order of service
        self.decoder = Decoder()
        self.stalled: dict[int, Job] = {}  # decoding, but without room for the next token

    @property
    def running(self) -> int:
        """Jobs that hold pages or are about to."""
        waiting = len(self.admitting) + len(self.loading) + len(self.prefill)
        return waiting + len(self.decoder) + len(self.stalled)

    def to_prefetching(self, job: Job) -> None:
        job.state = JobState.PREFETCHING
        self.prefetching[job.number] = job

    def enqueue(self, job: Job) -> None:
        job.state = JobState.QUEUED
        insort(self.queue, job, key=_order)

    def dequeue(self, job: Job) -> None:
        self.queue.remove(job)

    def to_admitting(self) -> Job:
        """The queue's head."""
        job = self.queue.pop(0)
        job.state = JobState.ADMITTING
        self.admitting[job.number] = job
        return job

    def to_loading(self, job: Job) -> None:
        job.state = JobState.LOADING
        self.loading[job.number] = job

    def to_prefill(self, job: Job) -> None:
        job.state = JobState.PREFILL
        insort(self.prefill, job, key=_order)

    def to_decode(self, job: Job) -> None:
        job.state = JobState.DECODE
        self.decoder.join(job)

    def to_stalled(self, job: Job) -> None:
        self.decoder.leave(job)
        self.stalled[job.number] = job

    def remove(self, job: Job) -> None:
        """Take a running job out of wherever it is."""
        for place in (self.admitting, self.loading, self.stalled):
            if place.pop(job.number, None) is not None:
                return
        if job.number in self.decoder.jobs:
            self.decoder.leave(job)
        else:
            self.prefill.remove(job)

    def prefill_backlog(self) -> int:
        """Tokens that admitted jobs still have to prefill."""
        return sum(job.prefill_left for job in self.prefill)

    def promised_pages(self, answer_share: float) -> int:
        """FULL pages that admitted jobs will still ask for: the rest of their prompts, and this
        share of their answers."""
        size, pages = self._page_size, 0
        for job in (*self.loading.values(), *self.prefill):
            assert job.table is not None
            pages += pages_of(job.key.tokens + 1, size) - len(job.table.full)
            pages += int(job.output_len * answer_share) // size
        left = self.decoder.answer_tokens_left
        left += sum(job.output_len - job.generated for job in self.stalled.values())
        return pages + int(left * answer_share) // size

    def active(self) -> Iterator[Job]:
        """Every running job."""
        yield from self.admitting.values()
        yield from self.loading.values()
        yield from self.holders()

    def holders(self) -> Iterator[Job]:
        """Jobs whose pages can be taken away, in no particular order of service."""
        yield from self.decoder.jobs.values()
        yield from self.stalled.values()
        yield from self.prefill


def _order(job: Job) -> tuple[int, int]:
    return job.order
