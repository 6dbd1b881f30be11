"""One worker of a load: connects to a master, sends its share, reports, and ends with it.

Everything it is to do comes from the master, but for the API key. It writes no file.
"""

from harness.load.swarm import Swarm  # imports Locust, and so comes first

import gevent  # isort: skip
import os
import time
from itertools import islice
from typing import Any

import psutil
from locust.env import Environment
from locust.runners import WorkerRunner

from harness.load.asker import Asker
from harness.load.crew import quiet_environment
from harness.load.ended import Exchanged, ended_of
from harness.load.health import Busy, Health
from harness.load.messages import BEGIN, PLAN, PLANNED, REPORT, STOP, Report
from harness.load.plan import WorkPlan
from harness.load.share import chosen, share
from harness.soak.plan import plan_traffic
from workloads.errors import WorkloadError

REPORT_S = 0.25
OPEN_TOLD = 5


def work(host: str, port: int, *, api_key: str) -> bool:
    """Until the master says so, or is gone; whether the share was sent to its end."""
    environment = quiet_environment()
    runner = environment.create_worker_runner(host, port)
    worker = Worker(environment, runner, api_key=api_key)
    runner.greenlet.join()
    return worker.done


class Worker:
    """Listens to the master of `runner`; `done` once the last report was sent."""

    def __init__(self, environment: Environment, runner: WorkerRunner, *, api_key: str) -> None:
        self._environment = environment
        self._runner = runner
        self._api_key = api_key
        self._swarm: Swarm | None = None
        self._busy = Busy()
        self._process = psutil.Process(os.getpid())
        self._reports = 0
        self._report = Report(number=0)
        self.done = False
        for name, listener in ((PLAN, self._plan), (BEGIN, self._begin), (STOP, self._stop)):
            runner.register_message(name, listener)

    def _plan(self, environment: Environment, msg: Any) -> None:
        """Says what is wrong, or that it is ready."""
        plan = WorkPlan.unpacked(msg.data)
        try:
            traffic = plan_traffic(plan.traffic)
            digest = traffic.workload.digest()
        except (OSError, WorkloadError) as error:
            self._runner.send_message(PLANNED, {"error": str(error)})
            return
        if digest != plan.digest:
            said = "its workload is another: use the same trace and the same version everywhere"
            self._runner.send_message(PLANNED, {"error": said})
            return
        sessions = chosen(traffic.workload, traffic.load.num_requests)
        asker = Asker(plan.loading, model=plan.model, api_key=self._api_key)
        self._swarm = Swarm(share(sessions, plan.worker, plan.workers), traffic.load, asker)
        self._swarm.on_end = self._ended
        self._environment.swarm = self._swarm  # type: ignore[attr-defined]
        self._runner.send_message(PLANNED, {"error": ""})

    def _begin(self, environment: Environment, msg: Any) -> None:
        assert self._swarm is not None
        self._busy.begin(time.monotonic())
        self._swarm.begin()
        gevent.spawn(self._go_on_reporting)

    def _stop(self, environment: Environment, msg: Any) -> None:
        if self._swarm is not None:
            self._swarm.stop()

    def _ended(self, exchanged: Exchanged) -> None:
        assert self._swarm is not None
        self._report.ended.append(ended_of(exchanged, self._swarm.start_ns))
        if not exchanged.outcome.error:
            for gap_ns in exchanged.outcome.gaps_ns:
                self._report.gaps.add(gap_ns / 1e9)

    def _go_on_reporting(self) -> None:
        swarm = self._swarm
        assert swarm is not None
        error = ""
        try:
            while not swarm.over:
                self._send_report(swarm)
                gevent.sleep(REPORT_S)
        except Exception as failure:  # of the workload, or of this program: the master tells it
            error = f"{type(failure).__name__}: {failure}"
            swarm.stop()
        self._report.error, self._report.done = error, True
        self._report.kept = swarm.kept
        self._send_report(swarm)
        self.done = not error

    def _send_report(self, swarm: Swarm) -> None:
        """What has come since the last one; between two switches of gevent."""
        report, self._reports = self._report, self._reports + 1
        self._report = Report(number=self._reports)
        report.health, swarm.health = swarm.health, Health()
        pulse, now_ns = swarm.pulse, time.monotonic_ns()
        report.in_flight, report.quiet_ns = pulse.in_flight, now_ns - pulse.heard_ns
        oldest = islice(pulse.open.items(), OPEN_TOLD)  # in order of sending
        report.open_ns = {name: now_ns - since_ns for name, since_ns in oldest}
        report.cpu_share = self._busy.share(time.monotonic())
        report.rss_bytes = self._process.memory_info().rss
        self._runner.send_message(REPORT, report.packed())
