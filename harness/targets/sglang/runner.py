"""Runs one scenario of a release under one order of events, with oracles watching, and judges it.

Invariant: a verdict's class says which promise broke and where, never which numbers it broke with.
"""

import re
from types import TracebackType
from typing import Protocol

from harness.explore.kernel import Ended, Point, Task
from harness.explore.marks import run_marks
from harness.explore.outcome import Outcome, Scenario, Verdict
from harness.explore.pickers import Chooser, Search
from harness.explore.tape import Divergence
from harness.targets.sglang.marks import Marks
from harness.targets.sglang.oracles import ORACLES, Broken
from harness.targets.sglang.release import Release
from harness.targets.sglang.view import View
from harness.targets.sglang.world import World

STEP_LIMIT = 3_000


class Spectator(Protocol):
    """Somebody who looks on, such as a teller of stories. Changes nothing."""

    def begin(self, world: World, view: View) -> None: ...

    def on_step(self, task: Task, point: Point) -> None: ...

    def after_step(self, task: Task, point: Point) -> None: ...


class ReleaseRunner:
    """A `Runner` over a release of SGLang."""

    def __init__(self, release: Release, *, without: tuple[str, ...] = ()) -> None:
        self.release = release
        self._without = without

    def run(
        self, scenario: Scenario, chooser: Chooser, spectator: Spectator | None = None
    ) -> Outcome:
        """Build, torture, judge. The scenario and the choices decide, whoever looks on."""
        world = World(self.release, scenario)
        view = View(world.cache, world.pools)
        seen = [kind for kind in ORACLES if view.opaque <= kind.sees_opaque]
        oracles = [kind(world, view) for kind in seen if kind.name not in self._without]
        marks = Marks(world, view)
        world.watchers = [view, *oracles, marks]
        kernel = world.kernel
        if spectator is not None:
            spectator.begin(world, view)
            kernel.on_step, kernel.after_step = spectator.on_step, spectator.after_step
        world.start()
        search = Search(chooser)
        ended = kernel.run(search, step_limit=STEP_LIMIT)
        if isinstance(ended.error, Divergence):
            raise ended.error
        if spectator is not None and ended.reason == "raised":
            last = next(task for task in kernel.tasks if task.name == ended.task)
            spectator.after_step(last, last.point)
        verdict = _judge(ended)
        if verdict is None:
            try:
                world.rest()
                view.forget()
                for oracle in oracles:
                    oracle.at_rest()
            except Exception as error:
                verdict = verdict_of(error)
        tape = search.tape
        reached = {mark: n for mark, n in marks.counts.items() if n}
        return Outcome(
            verdict=verdict,
            ended=ended,
            tape=tape,
            marks=run_marks(tape.order, tape.points, reached),
        )


def _judge(ended: Ended) -> Verdict | None:
    """Did the run end well?"""
    if ended.reason in ("deadlock", "step_limit"):
        waiting = ", ".join(f"{w.task} at {w.point.name}" for w in ended.waiting)
        return Verdict("P1", ended.reason, f"expected every request ends, saw {waiting}")
    return None if ended.error is None else verdict_of(ended.error)


def verdict_of(error: BaseException) -> Verdict:
    """An oracle's finding, or a crash of the release: named after the function that raised and the
    one of the cache or the scheduler that was called."""
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
