"""The world of a release on the virtual clock: forwards and copies take modelled time.

The scheduler, its loop and the streams are those of `World`; what differs is that a stream's next
piece of work is due when the compute model says so, and that clients send a workload's requests.

Invariant: the scheduler's own passes take no time; what its thread waits for does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.engine.clients import Clients
from harness.engine.compute import Compute, Direction, Work, prefill_work
from harness.engine.job import Job, JobState, JobStatus
from harness.explore.kernel import State
from harness.soak.plan import ServerPlan, TrafficPlan
from harness.targets.sglang.device import Copy, Stream
from harness.targets.sglang.release import Release
from harness.targets.sglang.shape import Shape
from harness.targets.sglang.tokens import named
from harness.targets.sglang.world import CACHE, RECEIVE, Launch, World

POINTS = {"fwd": "forward.run", "d2h": "copy.to_host", "h2d": "copy.to_device"}
BEYOND = 2  # tokens behind an answer that a batch launched too early may still ask for


@dataclass(frozen=True, slots=True)
class Costs:
    """What work takes, in seconds. `token_bytes` is what a token has in a component's pool."""

    compute: Compute
    token_bytes: dict[str, float]
    page_size: int
    window: int

    @classmethod
    def of(cls, server: ServerPlan) -> "Costs":
        config = server.config
        sizes = {c.name.lower(): config.page_bytes[c] / config.page_size for c in config.components}
        return cls(server.compute, sizes, config.page_size, config.window)

    def bytes_of(self, copy: Copy) -> int:
        return round(len(copy.device) * self.token_bytes[copy.component])

    def copy_s(self, copy: Copy) -> float:
        way = Direction.DEVICE_TO_HOST if copy.to_host else Direction.HOST_TO_DEVICE
        pages = -(-len(copy.device) // self.page_size)
        return _grain(self.compute.copy_s(self.bytes_of(copy), pages, way))

    def forward_s(self, launch: Launch) -> float:
        return _grain(self.compute.step_s(self._work(launch)))

    def _work(self, launch: Launch) -> Work:
        if launch.extending:
            return prefill_work([(row.start, row.stop) for row in launch.rows], self.window)
        contexts = [row.start for row in launch.rows]
        return Work(
            decode_requests=len(contexts),
            decode_context_tokens=sum(contexts),
            decode_window_tokens=sum(min(n, self.window) for n in contexts),
        )


def _grain(seconds: float) -> float:
    return round(seconds * 1e9) / 1e9


class TimedWorld(World):
    """`on_accept`, `on_job` and `on_gap` are told of requests as `Clients` and a soak are;
    `on_event(words)` of every batch, copy and end."""

    def __init__(
        self,
        release: Release,
        shape: Shape,
        server: ServerPlan,
        traffic: TrafficPlan,
        *,
        on_accept: Callable[[Job], None],
        on_job: Callable[[Job], None],
        on_gap: Callable[[float, int], None],
        on_event: Callable[[str], None],
    ) -> None:
        page = shape.page_size
        bare = {"sizes": shape._asdict(), "components": "", "page_size": page, "requests": []}
        super().__init__(release, bare)
        release.allow_running(shape.running)
        self.costs = Costs.of(server)
        self.jobs: dict[str, Job] = {}
        self.clients = Clients(
            self.kernel,
            self,
            traffic.workload.sessions(),
            traffic.load,
            page_size=page,
            vocab_size=server.shape.vocab_size,
            scattered=False,
        )
        self.longest = int(self.scheduler.max_req_input_len)
        self._vocab_size = server.shape.vocab_size
        self._on_accept, self._on_job, self._on_gap = on_accept, on_job, on_gap
        self._on_event = on_event
        self._owed_s = 0.0
        for stream in self.streams.values():
            stream.forced = self._waited_for

    def start(self) -> None:
        self._sched = self.kernel.spawn("sched", self._loop(), daemon=True)
        for name in self.streams:
            self.kernel.spawn(name, self.run_stream(name), daemon=True)
        self.clients.start()

    # -- the clients' server -------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        self._on_accept(job)
        if job.prompt_len >= self.longest:
            job.error = f"the prompt is longer than {self.longest - 1} tokens"
            self._end(job, JobStatus.REJECTED)
            return
        self.jobs[_rid(job)] = job
        self.post(job)

    def abort(self, job: Job) -> None:
        if job.state is not JobState.DONE:
            job.abort_asked = True
            self.post(self.release.abort_of(_rid(job)))

    def receive(self) -> None:
        """As `World.receive`, of jobs."""
        while self.inbox:
            item = self.inbox.pop(0)
            if isinstance(item, Job):
                self._take(item)
            else:
                self.scheduler.abort_request(item)

    def _take(self, job: Job) -> None:
        """`handle_generate_request`: the prompt's and the answer's tokens name their prefixes."""
        request = job.request
        prompt = request.prompt_tokens(self._vocab_size)
        answer = request.output_tokens(self._vocab_size)
        symbols = np.concatenate([prompt, answer, np.zeros(BEYOND, dtype=np.int32)])
        truth = named(symbols, request.namespace)
        rid = _rid(job)
        req = self.release.request_of(rid, truth[: len(prompt)].tolist(), len(answer))
        self.scheduler.init_req_max_new_tokens(req)
        self.truth[rid], self.live[rid] = truth, req
        self.scheduler._add_request_to_queue(req)

    # -- what takes time -----------------------------------------------------------------------

    async def run_stream(self, name: str) -> None:
        stream = self.streams[name]
        while True:
            if stream.pass_marks():
                self.kick()
            if not stream.ready:
                await self.kernel.wait(self.issued[name], f"{name}.idle")
                continue
            if stream.next_work == "forward":
                self._begun(self.in_flight[0])
            ran = stream.ran
            await self.kernel.pause(self._seconds(stream), POINTS[name], CACHE)
            if stream.ran != ran:
                continue  # the scheduler's thread has waited for it meanwhile
            self._run(stream)
            self.kick()

    def _run(self, stream: Stream) -> None:
        if (copy := stream.next_copy) is not None:
            way = "to the host" if copy.to_host else "to the device"
            self._on_event(f"{stream.name} copies {len(copy.device)} {copy.component} slots {way}")
            for watcher in self.watchers:
                watcher.copies(copy)
        elif stream.next_work == "forward":
            self._on_event(f"fwd runs {_told(self.in_flight[0])}")
        stream.run_next()

    def _seconds(self, stream: Stream) -> float:
        """What its next piece of work takes; marks of a batch's begin take nothing."""
        if (copy := stream.next_copy) is not None:
            return self.costs.copy_s(copy)
        return self.costs.forward_s(self.in_flight[0]) if stream.next_work == "forward" else 0.0

    def _waited_for(self, stream: Stream) -> None:
        """The scheduler's thread stands still until the stream's next piece is done."""
        self._owed_s += self._seconds(stream)
        if stream.next_work:
            self._on_event(f"sched waits for {stream.name}: {stream.next_work}")

    async def turn(self) -> None:
        if self._owed_s:
            owed, self._owed_s = self._owed_s, 0.0
            await self.kernel.pause(owed, "scheduler.waited", CACHE)
        await super().turn()

    # -- what happens to requests --------------------------------------------------------------

    def launch(self, batch: Any) -> tuple[Launch, Any]:
        launch, result = super().launch(batch)
        rows = tuple((row.rid, row.start, row.stop) for row in launch.rows)
        self.kernel.trail.add("batch", ("rows", rows))
        self._on_event(f"sched launches {_told(launch)}")
        for req in batch.reqs:
            job = self.jobs.get(req.rid)
            if job is not None and job.admitted_s < 0:
                job.admitted_s = job.matched_s = self.kernel.now
                job.device_tokens = int(req.cached_tokens_device)
                job.host_tokens = int(req.cached_tokens_host)
        return launch, result

    def _begun(self, launch: Launch) -> None:
        for row in launch.rows:
            job = self.jobs.get(row.rid)
            if job is not None and job.loaded_s < 0:
                job.loaded_s = self.kernel.now

    def process(self, batch: Any, result: Any) -> None:
        reqs = list(batch.reqs)
        super().process(batch, result)
        for req in reqs:
            self._answer_grew(req)

    def _answer_grew(self, req: Any) -> None:
        job = self.jobs.get(req.rid)
        if job is None:
            return
        new, now = len(req.output_ids) - job.generated, self.kernel.now
        if new <= 0:
            return
        if job.first_token_s < 0:
            job.first_token_s = now
        else:
            self._on_gap(now - job.last_token_s, new)
        job.last_token_s = now
        job.generated += new

    def answered(self, req: Any) -> None:
        """A request has ended, whichever way."""
        self._answer_grew(req)
        kind = type(req.finished_reason).__name__
        rid = req.rid
        self.live.pop(rid, None)
        self.truth.pop(rid, None)
        job = self.jobs.pop(rid, None)
        if job is None:
            return
        whole = kind not in ("NoneType", "FINISH_ABORT")
        self._on_event(f"{rid} ends: {kind}")
        if not whole and not job.abort_asked:
            job.error = str(getattr(req.finished_reason, "message", "")) or "ended by the release"
        self._end(job, JobStatus.COMPLETED if whole else JobStatus.ABORTED)

    def _end(self, job: Job, status: JobStatus) -> None:
        job.state, job.status, job.end_s = JobState.DONE, status, self.kernel.now
        self.clients.job_ended(job)
        self._on_job(job)

    # -- looked at from outside ----------------------------------------------------------------

    @property
    def stands_still(self) -> bool:
        """Requests are open, the scheduler has turned without finding anything to do, and nothing
        is on its way that could bring it further."""
        idle = self._sched.state is State.BLOCKED and self._sched.point.name == RECEIVE
        behind = any(stream.behind for stream in self.streams.values())
        return idle and bool(self.jobs) and not self.inbox and not behind

    @property
    def batch_tokens(self) -> int:
        return sum(row.stop - row.start for launch in self.in_flight for row in launch.rows)


def _rid(job: Job) -> str:
    return f"r{job.number}"


def _told(launch: Launch) -> str:
    rows = [f"{row.rid} [{row.start}, {row.stop})" for row in launch.rows[:4]]
    more = f" and {len(launch.rows) - 4} more" if len(launch.rows) > 4 else ""
    return f"{'a prefill' if launch.extending else 'a decode'} of {', '.join(rows)}{more}"
