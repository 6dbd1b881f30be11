"""Locust's users: each takes a session whose time has come, and holds it to its end.

Arrivals are open-loop: a dispatcher puts sessions into a queue at their times, whatever the users
do. What no user takes in time is late, and after a while dropped; both are counted. Importing this
patches the standard library for gevent, as Locust does.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import locust
from locust.env import Environment

import gevent  # isort: skip  # after Locust, which patches the standard library first
import time

from gevent.queue import Queue

from harness.engine.clients import Load
from harness.load.asker import Asker
from harness.load.ended import Exchanged, Kept, kept_of
from harness.load.exchange import Line, Outcome
from harness.load.health import Health
from harness.load.pulse import Pulse
from workloads.request import Request, Session

LEAD_S = 0.05  # a user takes a session so long before it is due, to have its prompt ready
MOST_KEPT = 400


class Due(NamedTuple):
    """A session whose first turn was due at `due_ns`; `crowded` when no user was free then."""

    session: Session
    due_ns: int
    crowded: bool


class Swarm:
    """The users of one process. `begin` starts the clock; `over` once every session has ended.

    `on_end` is told of every request that ended, in this thread, between two switches of gevent."""

    on_end: Callable[[Exchanged], None]

    def __init__(self, sessions: Iterator[Session], load: Load, asker: Asker) -> None:
        self._sessions = sessions
        self._load = load
        self._loading = asker.loading
        self._asker = asker
        self._due: Queue[Due] = Queue()
        self._free = 0  # users that wait for a session
        self._busy = 0
        self._feeder: gevent.Greenlet | None = None
        self.pulse = Pulse()
        self.health = Health()
        self.kept: list[Kept] = []  # of those that can be asked again, some
        self.stopping = False
        self.start_ns = 0

    def begin(self) -> None:
        """Times count from here."""
        self.start_ns = self.pulse.start_ns = self.pulse.heard_ns = time.monotonic_ns()
        self._feeder = gevent.spawn(self._feed)

    @property
    def over(self) -> bool:
        """Raises what the workload raised."""
        if self._feeder is None or not self._feeder.ready():
            return self.stopping
        self._feeder.get()
        return self.stopping or (self._due.empty() and not self._busy)

    def stop(self) -> None:
        """Send nothing more; what is under way is not waited for."""
        self.stopping = True
        if self._feeder is not None:
            self._feeder.kill()

    def line(self) -> Line:
        return self._asker.line()

    def next_session(self) -> Due | None:
        """For a user: a session, as soon as there is one; None when it came too late for it."""
        self._free += 1
        try:
            due: Due = self._due.get()
        finally:
            self._free -= 1
        if time.monotonic_ns() - due.due_ns > self._loading.drop_s * 1e9:
            self.health.dropped += len(due.session.turns)
            return None
        return due

    def hold(self, line: Line, environment: Environment, due: Due) -> None:
        """The turns of one session, one after the other."""
        self._busy += 1
        due_ns = due.due_ns
        ready_ns = max(due_ns, time.monotonic_ns()) if due.crowded else due_ns
        try:
            for request in due.session.turns:
                if request.turn:
                    ready_ns = due_ns = self._next_turn_ns(request)
                exchanged = self._prepared(request, due_ns, ready_ns)
                body = self._asker.body(exchanged)
                gevent.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))
                if self._too_late(due_ns):
                    return
                self._exchange(line, environment, exchanged, body)
        finally:
            self._busy -= 1

    def _next_turn_ns(self, request: Request) -> int:
        if request.delay_s is not None:
            return time.monotonic_ns() + int(request.delay_s * 1e9)
        return self.start_ns + int(request.arrival_s * 1e9)

    def _feed(self) -> None:
        for session in self._sessions:
            due_ns = self.start_ns + int(session.turns[0].arrival_s * 1e9)
            gevent.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9 - LEAD_S))
            if self._too_late(due_ns):
                break
            self._due.put(Due(session, due_ns, crowded=self._due.qsize() >= self._free))

    def _prepared(self, request: Request, due_ns: int, ready_ns: int) -> Exchanged:
        prompt = request.prompt_tokens(self._loading.vocab_size).tolist()
        tokens = self._loading.output_len or max(1, request.output_len)
        return Exchanged(request, prompt, tokens, due_ns, ready_ns, Outcome())

    def _exchange(
        self, line: Line, environment: Environment, exchanged: Exchanged, body: str
    ) -> None:
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
            response_length=sum(len(text) for text in outcome.texts),
            exception=RuntimeError(outcome.error.split(":")[0]) if outcome.error else None,
            context={},
        )
        self._ended(exchanged._replace(outcome=outcome))

    def _ended(self, exchanged: Exchanged) -> None:
        outcome = exchanged.outcome
        if outcome.sent_ns >= 0:
            due_ns, ready_ns = exchanged.scheduled_ns, exchanged.due_ns
            self.health.sent((outcome.sent_ns - due_ns) / 1e9, (ready_ns - due_ns) / 1e9)
        if self._loading.check_output and not outcome.error:
            self.kept.append(kept_of(exchanged))
            if len(self.kept) >= MOST_KEPT:
                self.kept = self.kept[::2]
        self.on_end(exchanged)

    def _heard(self) -> None:
        self.pulse.heard_ns = time.monotonic_ns()

    def _too_late(self, due_ns: int) -> bool:
        return self.stopping or (due_ns - self.start_ns) / 1e9 > self._load.duration_s


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
        due = self._swarm.next_session()
        if due is not None:
            self._swarm.hold(self._line, self.environment, due)
