"""Runs one scenario under one order of events, with oracles watching, and judges it.

Invariant: a verdict's class says which promise broke, never which numbers it broke with.
"""

from typing import Protocol

from cache.unified import UnifiedCache
from harness.engine.marks import Marks
from harness.explore.kernel import Ended, Point, Task
from harness.explore.marks import run_marks
from harness.explore.outcome import Outcome, Scenario, Verdict
from harness.explore.pickers import Chooser, Search
from harness.explore.tape import Divergence
from harness.faults import Fault, fault_named, tampered_calls
from harness.hunt.arena import Arena
from harness.hunt.build import Built, build
from harness.hunt.ranks import Tortured
from harness.hunt.scenario import config_of
from harness.hunt.transitions import Transitions
from harness.oracles import Violation, Watch, default_oracles, violation_of
from harness.stall import Stalled, stall_watch

STEP_LIMIT = 2_000
# What oracles say of room that was refused on purpose: they know that it could have been had.
REFUSED = {
    "P2": ("load.room", "room.short", "room.pending", "stuck"),
    "M2": ("unkept", "only_copy", "victim"),
}


class Spectator(Protocol):
    """Somebody who looks on, such as a teller of stories. Changes nothing."""

    def begin(self, cache: UnifiedCache) -> None: ...

    def on_step(self, task: Task, point: Point) -> None: ...

    def after_step(self, task: Task, point: Point) -> None: ...


class ArenaRunner:
    """A `Runner` over the reference cache, with a fault put into it or not. A scenario may name
    the fault itself, as replay files do."""

    def __init__(self, fault: Fault | None = None, *, without: tuple[str, ...] = ()) -> None:
        self._fault = fault
        self._without = without
        self.tortured: Tortured  # of the last run
        self.cache: UnifiedCache  # of its first rank

    def tampered_calls(self) -> int:
        """How often the last run came into its fault's code."""
        return tampered_calls(self.tortured)

    def run(
        self, scenario: Scenario, chooser: Chooser, spectator: Spectator | None = None
    ) -> Outcome:
        """Build, torture, judge. The scenario and the choices decide, whoever looks on."""
        found: list[Violation] = []
        config = config_of(scenario)
        fault = self._fault
        if fault is None and scenario.get("fault"):
            fault = fault_named(scenario["fault"])
        marks, moves = Marks(config), Transitions()
        watch = Watch(
            default_oracles("every", without=self._without),
            listeners=[marks, moves],
            on_violation=lambda seen: None if excused(seen) else found.append(seen),
        )
        built = build(scenario, watch, fault, without=self._without, on_offers=marks.offers_met)
        self.tortured = built.cache
        self.cache = built.cache.ranks[0]
        arena = Arena(scenario, built.cache, marks)
        kernel = arena.kernel
        steps = 0

        def excused(seen: Violation) -> bool:
            return arena.refused and seen.kind.startswith(REFUSED.get(seen.oracle, ()))

        def on_step(task: Task, point: Point) -> None:
            nonlocal steps
            steps += 1
            watch.step = steps
            next_step()
            if spectator is not None:
                spectator.on_step(task, point)

        def after_step(task: Task, point: Point) -> None:
            if found:
                kernel.stop()
            if spectator is not None:
                spectator.after_step(task, point)

        if spectator is not None:
            spectator.begin(self.cache)

        kernel.on_step, kernel.after_step = on_step, after_step
        arena.start()
        search = Search(chooser)
        with stall_watch() as next_step:
            ended = kernel.run(search, step_limit=STEP_LIMIT)
            if spectator is not None and ended.reason == "raised":
                last = next(t for t in kernel.tasks if t.name == ended.task)
                spectator.after_step(last, last.point)
            if isinstance(ended.error, Divergence):
                raise ended.error
            if not found:
                self._judge(ended, arena, built, (marks, moves), found, steps)
        tape = search.tape
        return Outcome(
            verdict=_verdict(found[0]) if found else None,
            ended=ended,
            tape=tape,
            marks=run_marks(tape.order, tape.points, _reached(marks), moves.reached()),
        )

    def _judge(
        self,
        ended: Ended,
        arena: Arena,
        built: Built,
        reached: tuple[Marks, Transitions],
        found: list[Violation],
        steps: int,
    ) -> None:
        """The run is over and no oracle spoke: did it end well, and is all at rest?"""
        if ended.reason in ("deadlock", "step_limit"):
            waiting = ", ".join(f"{w.task} at {w.point.name}" for w in ended.waiting)
            found.append(Violation("P1", ended.reason, "every request ends", waiting, steps, 0.0))
        elif ended.error is not None:
            found.append(_broken(ended.error, steps))
        elif ended.reason == "finished":
            try:
                arena.rest()
                for counter in reached:
                    counter.freeze()  # the flush at rest evicts nothing
                built.at_rest()
            except Exception as error:
                found.append(_broken(error, steps))


def _broken(error: Exception, steps: int) -> Violation:
    if isinstance(error, Stalled):
        return Violation("P1", "stalled", "every step ends", str(error), steps, 0.0)
    return violation_of(error, steps, 0.0)


def _verdict(violation: Violation) -> Verdict:
    message = f"expected {violation.expected}, saw {violation.seen}"
    return Verdict(violation.oracle, violation.kind, message)


def _reached(marks: Marks) -> dict[str, int]:
    return {mark: count for mark, count in marks.counts.items() if count}
