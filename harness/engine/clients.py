"""The clients: sessions that send their turns, wait for answers, and sometimes go away.

Invariant: a request is sent when its time has come, the turn before it has ended if the loop is
closed, and fewer than `max_concurrency` requests are open; its scheduled time is never moved.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Protocol

from cache.keys import Key
from harness.engine.job import Job, JobState, token_bytes
from harness.explore.kernel import Kernel, Signal
from workloads.request import Request, Session


@dataclass(frozen=True, slots=True)
class Load:
    """How much is sent: whichever limit comes first ends it."""

    num_requests: int | None = None
    duration_s: float = inf
    max_concurrency: int | None = None


class Server(Protocol):
    def submit(self, job: Job) -> None: ...

    def abort(self, job: Job) -> None: ...


class Clients:
    """`scattered` gives every session a task of its own from the start, so that a search can order
    arrivals as it likes; else a feeder starts each when it is due."""

    def __init__(
        self,
        kernel: Kernel,
        server: Server,
        sessions: Iterable[Session],
        load: Load,
        *,
        page_size: int,
        vocab_size: int,
        scattered: bool,
    ) -> None:
        self._kernel = kernel
        self._server = server
        self._sessions = sessions
        self._load = load
        self._page_size = page_size
        self._vocab_size = vocab_size
        self._scattered = scattered
        self._ended: dict[int, Signal] = {}
        self._closed = Signal("clients.closed")
        self.sent = 0
        self.open = 0
        self.stopping = False

    def start(self) -> None:
        if self._scattered:
            for number, session in enumerate(self._sessions):
                self._kernel.spawn(f"C{number}", self._session(session))
        else:
            self._kernel.spawn("clients", self._feed())

    def job_ended(self, job: Job) -> None:
        """The server has answered, refused or dropped `job`."""
        self.open -= 1
        self._ended.pop(job.number).fire()
        self._closed.fire()

    async def _feed(self) -> None:
        for number, session in enumerate(self._sessions):
            due = session.turns[0].arrival_s
            if self._over(due):
                return
            if due > self._kernel.now:
                await self._kernel.pause(due - self._kernel.now, "client.arrive")
            if len(session.turns) == 1 and self._has_room():
                self._send(session.turns[0], due)
            else:
                self._kernel.spawn(f"C{number}", self._session(session))

    async def _session(self, session: Session) -> None:
        kernel, ended = self._kernel, None
        for request in session.turns:
            due = request.arrival_s
            if request.delay_s is not None:
                if ended is not None:
                    job, signal = ended
                    while job.state is not JobState.DONE:
                        await kernel.wait(signal, "client.answer", ("request", job.name))
                due = kernel.now + request.delay_s
            if self._over(due):
                return
            obj = ("request", request.request_id)
            if self._scattered or due > kernel.now:
                await kernel.pause(max(0.0, due - kernel.now), "client.send", obj)
            while not self._has_room():
                await kernel.wait(self._closed, "client.concurrency", obj)
            if self._over(due):
                return
            ended = self._send(request, due)

    def _send(self, request: Request, due: float) -> tuple[Job, Signal]:
        self.sent += 1
        self.open += 1
        prompt = token_bytes(request.prompt_tokens(self._vocab_size))
        job = Job(
            request=request,
            name=request.request_id,
            number=self.sent,
            scheduled_s=due,
            sent_s=self._kernel.now,
            key=Key(prompt, self._page_size, request.namespace),
            output=token_bytes(request.output_tokens(self._vocab_size)),
            output_len=request.output_len,
        )
        signal = self._ended[job.number] = Signal(f"{job.name}.ended")
        if request.abort_after_s is not None:
            leave = self._leave(job, request.abort_after_s)
            self._kernel.spawn(f"A{job.number}", leave, daemon=True)
        self._kernel.spawn(f"S{job.number}", self._keep_alive(job, signal))
        self._server.submit(job)
        return job, signal

    async def _keep_alive(self, job: Job, signal: Signal) -> None:
        """An open request keeps the world going."""
        while job.state is not JobState.DONE:
            await self._kernel.wait(signal, "client.answer", ("request", job.name))

    async def _leave(self, job: Job, after_s: float) -> None:
        await self._kernel.pause(after_s, "client.abort", ("request", job.name))
        self._server.abort(job)

    def _has_room(self) -> bool:
        limit = self._load.max_concurrency
        return limit is None or self.open < limit

    def _over(self, due: float) -> bool:
        """Whether a request that is due then is beyond what is to be sent."""
        limit = self._load.num_requests
        return (
            self.stopping
            or max(due, self._kernel.now) > self._load.duration_s
            or (limit is not None and self.sent >= limit)
        )
