"""Who sends a load: the users of this process, or the workers of a master; driven the same way."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from harness.load.swarm import SessionUser, Swarm  # imports Locust, and so comes first

import gevent  # isort: skip
import time

from locust.env import Environment
from locust.runners import STATE_CLEANUP, STATE_STOPPED, STATE_STOPPING, Runner

from harness.load.ended import Exchanged, Kept, ended_of
from harness.load.health import Busy, Health
from harness.load.pulse import Pulse
from harness.load.tally import Sink

LOOK_S = 0.05  # how often it is asked whether the run is over
SPAWNED_PER_S = 100.0
HALTED = (STATE_STOPPED, STATE_STOPPING, STATE_CLEANUP)
QUIET = logging.CRITICAL + 1  # whoever runs the load tells what there is to tell


class Web(NamedTuple):
    """Where Locust's own page is shown."""

    host: str
    port: int


class Crew(Protocol):
    """Made for one run. `troubles` are what went wrong on the client's side, beyond lateness."""

    @property
    def pulse(self) -> Pulse: ...

    @property
    def start_ns(self) -> int: ...

    @property
    def troubles(self) -> list[str]: ...

    @property
    def health(self) -> Health: ...

    @property
    def kept(self) -> list[Kept]: ...

    @property
    def cpu_share(self) -> float:
        """The most of one core that any process of it has used."""
        ...

    def run(self) -> None:
        """Until everything was sent and has ended, or `stop`."""
        ...

    def stop(self) -> None:
        """Send nothing more; from any greenlet."""
        ...


class LocalCrew:
    """The users of this process."""

    def __init__(self, swarm: Swarm, sink: Sink, users: int, web: Web | None) -> None:
        self._swarm = swarm
        self._sink = sink
        self._users = users
        self._web = web
        self._busy = Busy()
        self._cpu_share = 0.0
        self.troubles: list[str] = []
        swarm.on_end = self._ended

    @property
    def pulse(self) -> Pulse:
        return self._swarm.pulse

    @property
    def start_ns(self) -> int:
        return self._swarm.start_ns

    @property
    def health(self) -> Health:
        return self._swarm.health

    @property
    def kept(self) -> list[Kept]:
        return self._swarm.kept

    @property
    def cpu_share(self) -> float:
        return self._cpu_share

    def run(self) -> None:
        environment = quiet_environment()
        environment.swarm = self._swarm  # type: ignore[attr-defined]
        runner = environment.create_local_runner()
        with shown(environment, self._web):
            runner.start(self._users, spawn_rate=min(float(self._users), SPAWNED_PER_S))
            while runner.user_count < self._users:
                gevent.sleep(0.001)
            try:
                self.send(runner)
            finally:
                runner.quit()

    def send(self, runner: Runner) -> None:
        """With users that are there, until it is over or somebody stops the runner."""
        self._busy.begin(time.monotonic())
        self._swarm.begin()
        try:
            while not self._swarm.over and not halted(runner):
                gevent.sleep(LOOK_S)
        finally:
            self._cpu_share = self._busy.share(time.monotonic())
            self._swarm.stop()

    def stop(self) -> None:
        self._swarm.stop()

    def _ended(self, exchanged: Exchanged) -> None:
        self._sink.add(ended_of(exchanged, self._swarm.start_ns))
        if not exchanged.outcome.error:
            for gap_ns in exchanged.outcome.gaps_ns:
                self._sink.gap(gap_ns / 1e9)


class GuestCrew(LocalCrew):
    """The users of a runner that is somebody else's, such as `locust -f`'s."""

    def __init__(self, swarm: Swarm, sink: Sink, users: int, runner: Runner) -> None:
        super().__init__(swarm, sink, users, None)
        self._runner = runner

    def run(self) -> None:
        while self._runner.user_count < self._users and not halted(self._runner):
            gevent.sleep(0.001)
        self.send(self._runner)


def quiet_environment() -> Environment:
    """With our users; Locust's own words are not told."""
    logging.getLogger("locust").setLevel(QUIET)
    return Environment(user_classes=[SessionUser])


@contextmanager
def shown(environment: Environment, web: Web | None) -> Iterator[None]:
    """With Locust's page, if it is wanted, for as long as the block takes."""
    if web is None:
        yield
        return
    typed, sys.argv = sys.argv, sys.argv[:1]  # the page parses it as Locust's own command line
    try:
        page = environment.create_web_ui(web.host, web.port)
        try:
            yield
        finally:
            page.stop()  # type: ignore[no-untyped-call]
    finally:
        sys.argv = typed


def halted(runner: Runner) -> bool:
    """Whether somebody pressed Stop on Locust's page."""
    return runner.state in HALTED
