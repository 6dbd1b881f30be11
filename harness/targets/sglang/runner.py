"""Runs one scenario of a release under one order of events, with oracles watching, and judges it.

Invariant: a verdict's class says which promise broke and where, never which numbers it broke with.
"""

import re
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import NamedTuple, Protocol

from harness.explore.kernel import Ended, Point, Task
from harness.explore.marks import run_marks
from harness.explore.outcome import Outcome, Scenario, Verdict
from harness.explore.pickers import Chooser, Search
from harness.explore.tape import Divergence
from harness.stall import Stalled, stall_watch
from harness.targets.sglang.baton import Baton
from harness.targets.sglang.marks import Marks
from harness.targets.sglang.oracles import ORACLES, Broken, Oracle
from harness.targets.sglang.pair import Pair
from harness.targets.sglang.release import Release
from harness.targets.sglang.view import View
from harness.targets.sglang.world import World

STEP_LIMIT = 3_000
STEP_S = 3.0  # of processor time, where one takes some hundredths; a process's first imports a lot
ALONE = ", one request at a time"  # before the story begins


class Seat(NamedTuple):
    """A rank and who looks into its cache."""

    world: World
    view: View


class Spectator(Protocol):
    """Somebody who looks on, such as a teller of stories. Changes nothing."""

    def begin(self, seats: Sequence[Seat]) -> None: ...

    def on_step(self, task: Task, point: Point) -> None: ...

    def after_step(self, task: Task, point: Point) -> None: ...


class _Stage:
    """One rank with all oracles watching, or two whose decisions are compared."""

    def __init__(self, release: Release, scenario: Scenario, without: tuple[str, ...]) -> None:
        self.pair = Pair(release, scenario) if scenario.get("ranks", 1) > 1 else None
        worlds = self.pair.ranks if self.pair else [World(release, scenario)]
        self.seats = [Seat(world, View(world.cache, world.pools)) for world in worlds]
        self.oracles: list[Oracle] = []
        first = self.seats[0]
        if self.pair is None:
            seen = [kind for kind in ORACLES if first.view.opaque <= kind.sees_opaque]
            self.oracles = [kind(*first) for kind in seen if kind.name not in without]
        self.marks = Marks(*first)
        for seat in self.seats:
            seat.world.watchers = [seat.view]
        first.world.watchers += [*self.oracles, self.marks]
        self.kernel = first.world.kernel

    @property
    def serving(self) -> bool:
        return self.seats[0].world.serving

    def start(self) -> None:
        (self.pair or self.seats[0].world).start()

    def close(self) -> None:
        """The run is over."""
        for seat in self.seats:
            seat.world.close()

    def rest(self) -> None:
        """Everything has ended: is all as it should be? Ranks are compared while they run."""
        if self.pair is None:
            self.seats[0].world.rest()
            self.seats[0].view.forget()
            for oracle in self.oracles:
                oracle.at_rest()

    def reached(self) -> dict[str, int]:
        counts = {mark: n for mark, n in self.marks.counts.items() if n}
        if self.pair is not None and self.pair.skewed:
            counts["ranks_skewed"] = self.pair.skewed
        return counts


class ReleaseRunner:
    """A `Runner` over a release of SGLang. What lies behind a known finding shows when the family
    of oracles that would end the run there is left out, here or in a scenario's `without`."""

    def __init__(self, release: Release, *, without: tuple[str, ...] = ()) -> None:
        self.release = release
        self._without = without

    def run(
        self, scenario: Scenario, chooser: Chooser, spectator: Spectator | None = None
    ) -> Outcome:
        """Build, torture, judge. The scenario and the choices decide, whoever looks on."""
        without = (*self._without, *scenario.get("without", ()))
        stage = _Stage(self.release, scenario, without)
        kernel = stage.kernel
        search = Search(chooser)
        try:
            with stall_watch(_of_the_release, _runs, limit_s=STEP_S) as next_step:
                kernel.on_step = _both(next_step, spectator)
                if spectator is not None:
                    spectator.begin(stage.seats)
                    kernel.after_step = spectator.after_step
                return self._run(stage, search, spectator)
        finally:
            stage.close()

    def _run(self, stage: _Stage, search: Search, spectator: Spectator | None) -> Outcome:
        stage.start()
        kernel = stage.kernel
        ended = kernel.run(search, step_limit=STEP_LIMIT)
        if isinstance(ended.error, Divergence):
            raise ended.error
        if spectator is not None and ended.reason == "raised":
            last = next(task for task in kernel.tasks if task.name == ended.task)
            spectator.after_step(last, last.point)
        verdict = _judge(ended)
        if verdict is not None and stage.serving:
            verdict = verdict._replace(signature=verdict.signature + ALONE)
        if verdict is None:
            try:
                stage.rest()
            except Exception as error:
                verdict = verdict_of(error)
        tape = search.tape
        return Outcome(
            verdict=verdict,
            ended=ended,
            tape=tape,
            marks=run_marks(tape.order, tape.points, stage.reached()),
        )


def _both(
    next_step: Callable[[], None], spectator: Spectator | None
) -> Callable[[Task, Point], None]:
    """What is called as each step begins."""

    def on_step(task: Task, point: Point) -> None:
        next_step()
        if spectator is not None:
            spectator.on_step(task, point)

    return on_step


def _runs() -> Baton | None:
    return Baton.current


def _of_the_release(frame: FrameType) -> bool:
    """A method of its cache."""
    module = str(frame.f_globals.get("__name__", ""))
    return module.startswith("sglang.srt.mem_cache") and "." in frame.f_code.co_qualname


def _judge(ended: Ended) -> Verdict | None:
    """Did the run end well?"""
    if ended.reason in ("deadlock", "step_limit"):
        waiting = ", ".join(f"{w.task} at {w.point.name}" for w in ended.waiting)
        return Verdict("P1", ended.reason, f"expected every request ends, saw {waiting}")
    return None if ended.error is None else verdict_of(ended.error)


def verdict_of(error: BaseException) -> Verdict:
    """An oracle's finding, or a crash of the release: named after the function that raised and the
    one of the cache or the scheduler that was called."""
    if isinstance(error, Stalled):
        return Verdict("P1", f"stalled in {error.where}", f"expected every step ends, saw {error}")
    if isinstance(error, Broken):
        said = f"expected {error.expected}, saw {error.seen}"
        return Verdict(error.oracle, re.sub(r"\d+", "#", error.signature), said)
    inner, entry = _frames(error.__traceback__)
    signature = f"{type(error).__name__} in {inner}" + (f", from {entry}" if entry else "")
    said = str(error).split("\n")[0] or "nothing said"
    return Verdict("crash", signature, f"expected no exception, saw {said}")


_ENTRIES = (
    "check_hicache_events",
    "flush_write_through_acks",
    "cache_finished_req",
    "cache_unfinished_req",
    "init_load_back",
    "match_prefix",
    "evict",
    "sanity_check",
)


def _frames(trace: TracebackType | None) -> tuple[str, str]:
    inner, entry = "nowhere", ""
    while trace is not None:
        code = trace.tb_frame.f_code
        inner = code.co_qualname
        if code.co_name in _ENTRIES and not entry:
            entry = code.co_name
        trace = trace.tb_next
    return inner, "" if inner.endswith(f".{entry}") else entry
