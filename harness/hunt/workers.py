"""A hunt on several cores: a process a core, each with a seed of its own, reports merged.

Invariant: what a process searches depends on its seed and number alone; only how far it gets
depends on time.
"""

import multiprocessing as mp
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

from harness.explore.campaign import Campaign, Report, strategy_named, towards
from harness.explore.outcome import Scenario
from harness.explore.prng import derive
from harness.faults import fault_named
from harness.hunt.scenario import swarm
from harness.targets.choose import REFERENCE, target_of, version_in
from harness.targets.sglang.environment import check_known
from harness.targets.sglang.hold import Held
from harness.targets.sglang.scenario import swarm as release_swarm

SLICE_S = 0.5
NONDETERMINISM = "nondeterminism"  # beside the kinds of findings: a run that went another way


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What every process of a hunt is told."""

    grain: str = "both"  # scheduler, fine, or both in turn
    strategy: str = "portfolio"
    towards: str = ""  # an order to head for, instead of a strategy
    fault: str = ""
    seed: int = 42
    budget_s: float = 60.0
    scenario: Scenario | None = None  # instead of the swarm's
    keep_going: bool = False
    storage_share: float | None = None  # of the drawn worlds; None: the swarm's own
    ranks_share: float | None = None
    target: str = REFERENCE
    held: Held = ()  # knobs of every world of a release, instead of drawn ones
    until: str = ""  # the oracle or kind, of whichever component, that ends the hunt

    def wants(self, kind: str) -> bool:
        """Whether a finding of this kind is what is searched for."""
        return self.until in ("", kind, kind.partition(".")[0], kind.partition(" (")[0])

    def ends_with(self, kinds: Collection[str]) -> bool:
        """Whether a hunt that has found these is over."""
        if self.until:
            return any(self.wants(kind) or kind == NONDETERMINISM for kind in kinds)
        return bool(kinds) and not self.keep_going


class Pulse(NamedTuple):
    """How one process is getting on."""

    job: int
    schedules: int
    steps: int
    kinds: tuple[str, ...]
    marks: int
    unseen_mass: float


def hunt(search: Search, jobs: int, on_pulse: Callable[[Pulse, float], None]) -> Report:
    """Search for `budget_s` seconds, or until what is found ends it."""
    started = time.monotonic()
    context = mp.get_context("spawn")
    stop = context.Event()
    readers: dict[Connection, int] = {}
    processes = []
    for job in range(jobs):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(search, job, writer, stop), daemon=True)
        process.start()
        writer.close()
        readers[reader] = job
        processes.append(process)
    report = Report(elapsed_s=0.0)
    try:
        while readers:
            for ready in wait(list(readers), timeout=1.0):
                assert isinstance(ready, Connection)
                _receive(ready, readers, report, search, stop, on_pulse, started)
    except KeyboardInterrupt:
        stop.set()
        for ready in list(readers):
            _receive_last(ready, report)
        raise HuntInterrupted(report) from None
    finally:
        for process in processes:
            process.join(timeout=5)
    report.elapsed_s = time.monotonic() - started
    return report


class HuntInterrupted(Exception):
    """Ctrl-C; `report` has what the processes handed in."""

    def __init__(self, report: Report) -> None:
        super().__init__("interrupted")
        self.report = report


def _receive(
    ready: Connection,
    readers: dict[Connection, int],
    report: Report,
    search: Search,
    stop: "mp.synchronize.Event",
    on_pulse: Callable[[Pulse, float], None],
    started: float,
) -> None:
    try:
        message = ready.recv()
    except EOFError:
        del readers[ready]
        return
    if isinstance(message, Report):
        report.merge(message)
        del readers[ready]
        return
    assert isinstance(message, Pulse)
    on_pulse(message, time.monotonic() - started)
    if search.ends_with(message.kinds):
        stop.set()


def _receive_last(ready: Connection, report: Report) -> None:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and ready.poll(deadline - time.monotonic()):
        try:
            message = ready.recv()
        except EOFError:
            return
        if isinstance(message, Report):
            report.merge(message)
            return


def _work(search: Search, job: int, out: Connection, stop: "mp.synchronize.Event") -> None:
    """One process: campaign slices until the time is up or it is told to stop. Its time begins when
    what it tortures has been built: importing a release takes a dozen seconds."""
    campaign = None
    try:
        campaign = campaign_of(search, job)
        started, reached = time.monotonic(), 0.0
        while reached < search.budget_s and not stop.is_set():
            reached = min(search.budget_s, max(reached, time.monotonic() - started) + SLICE_S)
            report = campaign.run(
                elapsed=lambda: time.monotonic() - started,
                budget_s=reached,
                enough=lambda r: bool(r.unrepeatable) or search.ends_with(r.findings),
            )
            kinds = tuple(report.findings) + (NONDETERMINISM,) * bool(report.unrepeatable)
            marks = sum(1 for count in report.marks.sometimes.values() if count)
            unseen = report.marks.unseen_mass()
            out.send(Pulse(job, report.schedules, report.steps, kinds, marks, unseen))
            if search.ends_with(kinds):
                break
        out.send(campaign.report)
    except KeyboardInterrupt:
        if campaign is not None:
            out.send(campaign.report)
    finally:
        out.close()


def campaign_of(search: Search, job: int) -> Campaign:
    """The campaign of process `job`."""
    return Campaign(
        runner=target_of(search.target, search.fault).runner,
        scenarios=_Scenarios(search, job),
        strategy=towards(search.towards) if search.towards else strategy_named(search.strategy),
        seed=derive(search.seed, "job", job),
    )


class _Scenarios:
    """The given scenario, or swarm after swarm of the grain or of both in turn."""

    def __init__(self, search: Search, job: int) -> None:
        grains = ("scheduler", "fine") if search.grain == "both" else (search.grain,)
        shares: dict[str, float] = fault_named(search.fault).shares if search.fault else {}
        told = {"storage_share": search.storage_share, "ranks_share": search.ranks_share}
        shares = {**shares, **{name: share for name, share in told.items() if share is not None}}
        self._swarms = [swarm(grain, **shares) for grain in grains]
        if search.target != REFERENCE:
            self._swarms = [release_swarm(check_known(version_in(search.target)))]
        self._fixed, self._held = search.scenario, dict(search.held)
        self._drawn = job

    def draw(self, seed: int) -> Scenario:
        if self._fixed is not None:
            return self._fixed
        self._drawn += 1
        drawn = self._swarms[self._drawn % len(self._swarms)].draw(seed)
        return {**drawn, **self._held}
