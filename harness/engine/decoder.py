"""The decoding batch, kept so that a step costs what changes and not what is there.

Every job's next event (its page is full, its answer is complete) has a tick; between events a step
only counts. Invariant: `context_tokens` is the sum of the jobs' written tokens,
`answer_tokens_left` that of the tokens that they have still to generate.
"""

from heapq import heappop, heappush

from harness.engine.job import Job


class Decoder:
    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}  # by number
        self.tick = 0
        self.context_tokens = 0
        self.answer_tokens_left = 0
        self._due: list[tuple[int, int]] = []
        self._joined: dict[int, Job] = {}  # since the last step

    def __len__(self) -> int:
        return len(self.jobs)

    def join(self, job: Job) -> None:
        """`job` has its first token and room for the KV of at least one more."""
        assert job.table is not None
        assert job.table.capacity_tokens > job.table.written
        job.joined = self.tick
        job.joined_written = job.table.written
        job.joined_generated = job.generated
        self.jobs[job.number] = self._joined[job.number] = job
        self.context_tokens += job.joined_written
        self.answer_tokens_left += job.output_len - job.generated
        self.schedule(job)

    def leave(self, job: Job) -> None:
        """Take `job` out, its counters brought up to date."""
        self.context_tokens -= self.written(job)
        job.generated = self.generated(job)
        self.answer_tokens_left -= job.output_len - job.generated
        del self.jobs[job.number]
        self._joined.pop(job.number, None)

    def step(self) -> list[Job]:
        """One token for every job; those with an event now, in order of arrival."""
        self.tick += 1
        self._joined.clear()
        self.context_tokens += len(self.jobs)
        self.answer_tokens_left -= len(self.jobs)
        due: dict[int, Job] = {}  # a job that left and joined again may be listed twice
        while self._due and self._due[0][0] <= self.tick:
            tick, number = heappop(self._due)
            job = self.jobs.get(number)
            if job is not None and tick == self._next_event(job):
                due[number] = job
        return list(due.values())

    def joined_now(self) -> list[Job]:
        """Jobs that no step has given a token yet."""
        return list(self._joined.values())

    def schedule(self, job: Job) -> None:
        """Note when `job` needs attention next; again after every event that was dealt with."""
        heappush(self._due, (self._next_event(job), job.number))

    def written(self, job: Job) -> int:
        """Tokens of `job` whose KV has been computed by now."""
        return job.joined_written + self.tick - job.joined

    def generated(self, job: Job) -> int:
        return job.joined_generated + self.tick - job.joined

    def complete(self, job: Job) -> bool:
        """Whether the answer of `job` has all its tokens."""
        return self.generated(job) >= job.output_len

    def _next_event(self, job: Job) -> int:
        assert job.table is not None
        full = job.joined + job.table.capacity_tokens - job.joined_written
        complete = job.joined + job.output_len - job.joined_generated
        return min(full, complete)
