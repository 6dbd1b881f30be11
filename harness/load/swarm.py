"""Locust's users: each takes a session whose time has come, and holds it to its end.

Arrivals are open-loop: a dispatcher puts sessions into a queue at their times, whatever the users
do. What no user takes in time is late, and after a while dropped; both are counted. Importing this
patches the standard library for gevent, as Locust does.
"""

from collections.abc import Callable
from typing import NamedTuple

import locust
from locust.env import Environment

import gevent  # isort: skip  # after Locust, which patches the standard library first
import time

from gevent.queue import Queue

from harness.engine.clients import Load
from harness.load.backends import body_of
from harness.load.exchange import Line, Outcome
from harness.load.pulse import Pulse
from harness.load.settings import Loading
from workloads.request import Request, Session, Workload

LOOK_S = 0.05  # how often it is asked whether the run is over
SPAWNED_PER_S = 100.0


class Exchanged(NamedTuple):
    """One request that has ended. Nanoseconds of the monotonic clock."""

    request: Request
    prompt: list[int]
    max_tokens: int
    scheduled_ns: int
    outcome: Outcome


class Swarm:
    """Made for one run: `Swarm(...).run()` returns when every session has ended or it was stopped.

    `on_end` is told of every request that ended, in this thread, between two switches of gevent."""

    def __init__(
        self,
        workload: Workload,
        load: Load,
        loading: Loading,
        *,
        model: str,
        api_key: str,
        on_end: Callable[[Exchanged], None],
    ) -> None:
        self._workload = workload
        self._load = load
        self._loading = loading
        self._model = model
        self._api_key = api_key
        self._on_end = on_end
        self._due: Queue[tuple[Session, int]] = Queue()
        self._busy = 0
        self.users = min(loading.users, load.max_concurrency or loading.users)
        self.pulse = Pulse()
        self.sent = 0
        self.dropped = 0
        self.stopping = False
        self.fed = False
        self.start_ns = 0

    def run(self) -> None:
        environment = Environment(user_classes=[SessionUser])
        environment.swarm = self  # type: ignore[attr-defined]
        runner = environment.create_local_runner()
        runner.start(self.users, spawn_rate=min(float(self.users), SPAWNED_PER_S))
        while runner.user_count < self.users:
            gevent.sleep(0.001)
        self.start_ns = self.pulse.start_ns = self.pulse.heard_ns = time.monotonic_ns()
        feeder = gevent.spawn(self._feed)
        try:
            while not self.stopping and not (self.fed and self._due.empty() and not self._busy):
                gevent.sleep(LOOK_S)
            feeder.get(block=self.fed)
        finally:
            self.stopping = True
            feeder.kill()
            runner.quit()

    def next_session(self) -> tuple[Session, int] | None:
        """For a user: a session and when it was due, as soon as there is one; None when it came
        too late for it."""
        session, due_ns = self._due.get()
        if time.monotonic_ns() - due_ns > self._loading.drop_s * 1e9:
            self.dropped += len(session.turns)
            return None
        return session, due_ns

    def hold(self, line: Line, environment: Environment, session: Session, due_ns: int) -> None:
        """The turns of one session, one after the other."""
        self._busy += 1
        try:
            for request in session.turns:
                if request.delay_s is not None and request.turn:
                    due_ns = time.monotonic_ns() + int(request.delay_s * 1e9)
                elif request.turn:
                    due_ns = self.start_ns + int(request.arrival_s * 1e9)
                exchanged = self._prepared(request, due_ns)
                body = self.body(exchanged)
                gevent.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))
                if self._over(due_ns):
                    return
                self._exchange(line, environment, exchanged, body)
        finally:
            self._busy -= 1

    def _feed(self) -> None:
        for session in self._workload.sessions():
            due_ns = self.start_ns + int(session.turns[0].arrival_s * 1e9)
            gevent.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))
            if self._over(due_ns):
                break
            self._due.put((session, due_ns))
        self.fed = True

    def _prepared(self, request: Request, due_ns: int) -> Exchanged:
        prompt = request.prompt_tokens(self._loading.vocab_size).tolist()
        tokens = self._loading.output_len or max(1, request.output_len)
        return Exchanged(request, prompt, tokens, due_ns, Outcome())

    def _exchange(
        self, line: Line, environment: Environment, exchanged: Exchanged, body: str
    ) -> None:
        self.sent += 1
        self.pulse.in_flight += 1
        if self.pulse.in_flight == 1:
            self.pulse.heard_ns = time.monotonic_ns()  # nothing was due before
        name = exchanged.request.request_id
        self.pulse.open[name] = time.monotonic_ns()
        try:
            outcome = line.complete(body, self._heard)
        finally:
            self.pulse.in_flight -= 1
            del self.pulse.open[name]
        environment.events.request.fire(  # type: ignore[no-untyped-call]
            request_type="completion",
            name=self._loading.backend,
            response_time=(outcome.end_ns - max(outcome.sent_ns, 0)) / 1e6,
            response_length=len(outcome.text),
            exception=RuntimeError(outcome.error) if outcome.error else None,
            context={},
        )
        self._on_end(exchanged._replace(outcome=outcome))

    def body(self, exchanged: Exchanged) -> str:
        """What is sent, now or again."""
        return body_of(
            self._loading.backend,
            self._model,
            exchanged.prompt,
            exchanged.max_tokens,
            salt=exchanged.request.namespace,
            priority=exchanged.request.priority,
        )

    def line(self) -> Line:
        loading = self._loading
        return Line(loading.base_url, api_key=self._api_key, timeout_s=loading.request_s)

    def _heard(self) -> None:
        self.pulse.heard_ns = time.monotonic_ns()

    def _over(self, due_ns: int) -> bool:
        limit = self._load.num_requests
        return (
            self.stopping
            or (due_ns - self.start_ns) / 1e9 > self._load.duration_s
            or (limit is not None and self.sent >= limit)
        )


class SessionUser(locust.User):
    """Takes sessions until Locust stops it."""

    wait_time = locust.constant(0)

    def on_start(self) -> None:
        self._swarm: Swarm = self.environment.swarm
        self._line = self._swarm.line()

    def on_stop(self) -> None:
        self._line.close()

    @locust.task
    def session(self) -> None:
        taken = self._swarm.next_session()
        if taken is not None:
            self._swarm.hold(self._line, self.environment, *taken)
