"""The master of a load: hands every worker its share, and merges what they report.

Invariant: every request that a worker reported is recorded once. What cannot be told apart from
loss (a report with the wrong number, a worker that is gone) is a trouble of the run, and ends it;
what was reported until then stays.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from harness.load.crew import (  # imports Locust, and so comes first
    LOOK_S,
    SPAWNED_PER_S,
    Web,
    halted,
    quiet_environment,
    shown,
)

import gevent  # isort: skip
import time
from typing import Any, NamedTuple

from locust.env import Environment
from locust.exception import RPCError
from locust.runners import STATE_MISSING, MasterRunner

from harness.load.ended import Kept
from harness.load.hands import Hands
from harness.load.health import Busy, Health
from harness.load.messages import BEGIN, PLAN, PLANNED, REPORT, STOP, Report
from harness.load.plan import WorkPlan
from harness.load.pulse import Pulse
from harness.load.tally import Sink

GONE_S = 10.0  # a worker that Locust misses, and that has reported nothing for so long, is gone
LAST_WORD_S = 10.0  # what workers get for their last report once they were stopped


class NoWorkers(Exception):
    """The load cannot begin; the message is one line that says why."""


@dataclass(slots=True)
class Known:
    """A worker, and the last that was heard of it."""

    number: int
    heard_s: float
    planned: bool = False
    reports: int = 0
    report: Report = field(default_factory=lambda: Report(number=-1))


class Helm(NamedTuple):
    """Where so many workers come to. `local` ones are started here; others come by themselves."""

    host: str
    port: int
    workers: int
    local: bool
    api_key: str


class MasterCrew:
    """Workers, wherever they run. `port` is where they can come to once it was made."""

    def __init__(self, plan: WorkPlan, sink: Sink, users: int, helm: Helm, web: Web | None) -> None:
        """Raises `NoWorkers` when the address cannot be listened on."""
        self._plan = plan
        self._sink = sink
        self._users = users
        self._helm = helm
        self._web = web
        self._busy = Busy()
        self._known: dict[str, Known] = {}
        self._inbox: list[tuple[str, str, Any]] = []
        self._stopping = False
        self._hands: Hands | None = None
        self.pulse = Pulse()
        self.health = Health()
        self.kept: list[Kept] = []
        self.troubles: list[str] = []
        self.start_ns = 0
        self.cpu_share = 0.0
        self._environment = quiet_environment()
        try:
            create = self._environment.create_master_runner
            self._runner: MasterRunner = create(helm.host, helm.port)
        except (RPCError, OSError, SystemExit) as error:
            raise NoWorkers(f"{helm.host}:{helm.port} cannot be listened on: {error}") from None
        for name in (PLANNED, REPORT):
            self._runner.register_message(name, self._received)
        self.port: int = self._runner.server.port

    def run(self) -> None:
        """Raises `NoWorkers` when the load cannot begin."""
        with ExitStack() as ending:
            ending.callback(self._runner.server.close, linger=0)
            if self._helm.local:
                self._hands = ending.enter_context(self._hired())
            ending.callback(self._runner.quit)
            ending.enter_context(shown(self._environment, self._web))
            self._muster()
            self._send()

    def stop(self) -> None:
        self._stopping = True

    def _hired(self) -> Hands:
        helm = self._helm
        return Hands(helm.workers, helm.host, self.port, api_key=helm.api_key)

    def _ended_hands(self) -> list[str]:
        return [] if self._hands is None else self._hands.ended()

    # -- before it begins ----------------------------------------------------------------------

    def _muster(self) -> None:
        """Every worker has come, knows its share, and has its users."""
        self._until(lambda: len(self._runner.clients.ready) >= self._helm.workers)
        for number, client in enumerate(self._runner.clients.ready[: self._helm.workers]):
            self._known[client.id] = Known(number, time.monotonic())
            plan = replace(self._plan, worker=number, workers=self._helm.workers)
            self._runner.send_message(PLAN, plan.packed(), client.id)
        self._until(lambda: all(known.planned for known in self._known.values()))
        self._until(lambda: len(self._runner.clients.ready) >= self._helm.workers)
        self._runner.start(self._users, spawn_rate=min(float(self._users), SPAWNED_PER_S))
        self._until(lambda: self._runner.user_count >= self._users)

    def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            if ended := self._ended_hands():
                raise NoWorkers(f"{ended[0]} before the load began")
            self._read()
            gevent.sleep(0.01)

    # -- while it goes on ----------------------------------------------------------------------

    def _send(self) -> None:
        self.start_ns = self.pulse.start_ns = self.pulse.heard_ns = time.monotonic_ns()
        self._busy.begin(time.monotonic())
        self._runner.send_message(BEGIN, {})
        try:
            while not self._over():
                gevent.sleep(LOOK_S)
                self._read()
                self._look_for_the_gone()
        finally:
            self._part()

    def _over(self) -> bool:
        return (
            self._stopping
            or bool(self.troubles)
            or halted(self._runner)
            or all(known.report.done for known in self._known.values())
        )

    def _part(self) -> None:
        """Stop whoever goes on, and wait for their last words."""
        self._runner.send_message(STOP, {})
        deadline = time.monotonic() + LAST_WORD_S
        while time.monotonic() < deadline and not all(k.report.done for k in self._present()):
            gevent.sleep(0.01)
            self._read()
        self.cpu_share = max([self._busy.share(time.monotonic()), *self._shares()])

    def _shares(self) -> list[float]:
        return [known.report.cpu_share for known in self._known.values()]

    def _present(self) -> list[Known]:
        missing = {client.id for client in self._runner.clients.missing}
        return [known for name, known in self._known.items() if name not in missing]

    def _look_for_the_gone(self) -> None:
        now = time.monotonic()
        self.troubles += [f"{ended} before the load was over" for ended in self._ended_hands()]
        for name, known in self._known.items():
            client = self._runner.clients.get(name)
            missing = client is None or client.state == STATE_MISSING
            if missing and not known.report.done and now - known.heard_s > GONE_S:
                quiet_s = now - known.heard_s
                self.troubles.append(f"worker {known.number} is gone, silent for {quiet_s:.0f} s")

    # -- what workers say ----------------------------------------------------------------------

    def _received(self, environment: Environment, msg: Any) -> None:
        """In Locust's greenlet, which hides exceptions: it is only noted."""
        self._inbox.append((msg.type, msg.node_id, msg.data))

    def _read(self) -> None:
        inbox, self._inbox = self._inbox, []
        for kind, name, data in inbox:
            known = self._known.get(name)
            if known is None:
                continue
            if kind == REPORT:
                self._take(known, Report.unpacked(data))
            elif data["error"]:
                raise NoWorkers(f"worker {known.number}: {data['error']}")
            known.planned = True

    def _take(self, known: Known, report: Report) -> None:
        if report.number != known.reports:
            self.troubles.append(
                f"worker {known.number} sent report {report.number}, not {known.reports}:"
                " what is between was lost"
            )
        known.reports, known.report, known.heard_s = report.number + 1, report, time.monotonic()
        for ended in report.ended:
            self._sink.add(ended)
        self._sink.gaps(report.gaps)
        self.health.merge(report.health)
        self.kept += report.kept
        if report.error:
            self.troubles.append(f"worker {known.number} failed: {report.error}")
        self._feel(report)

    def _feel(self, report: Report) -> None:
        now_ns = time.monotonic_ns()
        self.pulse.in_flight = sum(known.report.in_flight for known in self._known.values())
        self.pulse.heard_ns = max(self.pulse.heard_ns, now_ns - report.quiet_ns)
        self.pulse.open = {
            name: now_ns - open_ns
            for known in self._known.values()
            for name, open_ns in known.report.open_ns.items()
        }
