"""Where requests come into the engine, and where their tokens leave it.

Everything here runs in the engine's thread. Invariant: a ticket is open from its submission until
`end` was called on it, exactly once.
"""

from cache.keys import Key
from harness.engine.job import Job
from harness.engine.scheduler import Scheduler
from harness.explore.kernel import Kernel, Point, Signal, Task
from harness.serve.answers import Answers
from harness.serve.received import Ticket

GENERATES = ("forward.prefill", "forward.decode")


class Door:
    """The front of a served world; it keeps the world going until it is closed and empty."""

    def __init__(
        self, kernel: Kernel, scheduler: Scheduler, answers: Answers, page_size: int
    ) -> None:
        self._kernel = kernel
        self._scheduler = scheduler
        self._answers = answers
        self._page_size = page_size
        self._changed = Signal("door.changed")
        self._tickets: dict[int, tuple[Ticket, Job]] = {}  # by the job's number
        self._numbers: dict[Ticket, int] = {}
        self._closing = False
        self.received = 0

    @property
    def open(self) -> int:
        """Requests that have not ended."""
        return len(self._tickets)

    def start(self) -> None:
        self._kernel.spawn("door", self._stay_open())

    async def _stay_open(self) -> None:
        while self._tickets or not self._closing:
            await self._kernel.wait(self._changed, "door.open")

    def submit(self, ticket: Ticket, sent_s: float) -> None:
        """Hand a request to the scheduler; its ticket ends at once when it can never run."""
        if self._closing:
            ticket.end(None, "the server is shutting down")
            return
        received = ticket.received
        self.received += 1
        job = Job(
            request=received,
            name=received.request_id,
            number=self.received,
            scheduled_s=sent_s,
            sent_s=sent_s,
            key=Key(received.data, self._page_size, received.namespace),
            output=b"",
            output_len=received.output_len,
        )
        self._answers.begin(job)
        ticket.begin(job)
        self._tickets[job.number] = (ticket, job)
        self._numbers[ticket] = job.number
        self._scheduler.submit(job)

    def abort(self, ticket: Ticket) -> None:
        """The client has gone away; nothing if its request has ended."""
        number = self._numbers.get(ticket)
        if number is not None:
            self._scheduler.abort(self._tickets[number][1])

    def abort_all(self) -> None:
        for ticket, _ in list(self._tickets.values()):
            self.abort(ticket)

    def close(self) -> None:
        """Take no more requests; the world ends with the last that is open."""
        self._closing = True
        self._changed.fire()

    def give_up(self, why: str) -> None:
        """The engine has stopped: nobody will get an answer any more."""
        self._closing = True
        for ticket, _ in list(self._tickets.values()):
            ticket.end(None, why)
        self._tickets.clear()
        self._numbers.clear()

    def job_ended(self, job: Job) -> None:
        ticket, _ = self._tickets.pop(job.number)
        del self._numbers[ticket]
        self._answers.end(job)
        if job.generated > ticket.generated:
            ticket.advance(job.generated)
        ticket.end(job.status, job.error)
        self._changed.fire()

    def stepped(self, task: Task, point: Point) -> None:
        """A segment is over: tell the tickets whose answers have grown."""
        if point.name not in GENERATES:
            return
        decoder = self._scheduler.roster.decoder
        for number, (ticket, job) in self._tickets.items():
            known = decoder.generated(job) if number in decoder.jobs else job.generated
            if known > ticket.generated:
                ticket.advance(known)
