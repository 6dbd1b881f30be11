"""The pickers: the virtual clock takes what is due first, a search takes what its strategy says.

Under a search the first candidate is always what the virtual clock would run next, so the tape of
nothing but zeros is the natural order of events and every other value is a deviation from it.

Invariant: a choice is recorded exactly where two or more tasks are runnable.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Protocol

from harness.explore.kernel import PAUSED, READY, Kernel, Stop, Task
from harness.explore.tape import PointReplay, StrictReplay, Tape

STANDSTILL = 1_000_000  # steps at one instant of the virtual clock in which no task ends
_by_number = attrgetter("number")
_by_rank = attrgetter("rank")


class VirtualClock:
    """Ready tasks first come first served, then the one that is due first, ties by task number.

    ``draws(label, bound)`` answers ``Kernel.draw``; without it every draw is 0. Points do not
    suspend here, so a step is a segment that ends in a pause, a wait or the end of its task.
    Tasks that keep waking each other while time stands still and nobody ends are a livelock.
    """

    def __init__(self, draws: Callable[[str, int], int] | None = None) -> None:
        self._draws = draws
        self._ready: deque[Task] = deque()

    def draw(self, label: str, bound: int) -> int:
        return self._draws(label, bound) if self._draws is not None else 0

    def make_ready(self, task: Task) -> None:
        self._ready.append(task)

    def drive(self, kernel: Kernel, step_limit: int) -> Stop:
        ready, due = self._ready, list[tuple[float, int, Task]]()
        steps, limit, alive = 0, min(step_limit, STANDSTILL), kernel.alive
        while True:
            if kernel.fresh:
                ready.extend(kernel.fresh)
                kernel.fresh.clear()
            if kernel.alive == 0:
                return Stop("finished", steps)
            if kernel.stopping:
                return Stop("stopped", steps)
            if steps >= limit:
                if steps >= step_limit:
                    return Stop("step_limit", steps)
                if kernel.alive == alive:
                    return Stop("livelock", steps)
                alive, limit = kernel.alive, min(step_limit, steps + STANDSTILL)
            if ready:
                task = ready.popleft()
            elif due:
                now, _, task = heappop(due)
                if task.state is not PAUSED or task.due != now:
                    continue  # it was cancelled while it paused
                if now > kernel.now:
                    kernel.now = now
                    alive, limit = kernel.alive, min(step_limit, steps + STANDSTILL)
            else:
                return Stop("deadlock", steps)
            steps += 1
            try:
                begin(task)
                kernel.trail.add(task.name, task.point)
                point = task.point
                if kernel.on_step is not None:
                    kernel.on_step(task, point)
                kernel.resume(task)
                if kernel.after_step is not None:
                    kernel.after_step(task, point)
            except Exception as error:
                return Stop("raised", steps, error, task.name)
            if task.state is PAUSED:
                heappush(due, (task.due, task.number, task))


class Chooser(Protocol):
    """What a search asks: a strategy, or a replay."""

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        """An index into ``runnable``, which has two tasks or more.

        ``current`` is the task that could go on, then the first of ``runnable``; None when the last
        task gave up its turn, and the first is then what the virtual clock would run.
        """
        ...

    def draw(self, label: str, bound: int) -> int: ...


class Search:
    """Every task that is not blocked is a candidate at every step, whatever the time.

    Records the run on ``tape``. Time jumps forward with the tasks that were picked and never back.
    """

    def __init__(self, strategy: Chooser, tape: Tape | None = None) -> None:
        self.strategy = strategy
        self.tape = tape if tape is not None else Tape()
        self._others: list[Task] = []
        if isinstance(strategy, StrictReplay | PointReplay):
            strategy.watch(self.tape)

    def draw(self, label: str, bound: int) -> int:
        value = self.strategy.draw(label, bound)
        self.tape.record_draw(label, value, bound)
        return value

    def make_ready(self, task: Task) -> None:
        insort(self._others, task, key=_by_number)

    def drive(self, kernel: Kernel, step_limit: int) -> Stop:
        kernel.inline = False
        stop = self._loop(kernel, step_limit)
        kernel.trail.extend(zip(self.tape.order, self.tape.points, strict=True))
        if isinstance(self.strategy, StrictReplay):
            self.strategy.finish()
        return stop

    def _loop(self, kernel: Kernel, step_limit: int) -> Stop:
        order, points, fresh = self.tape.order, self.tape.points, kernel.fresh
        pick, value, bound = self.strategy.pick, self.tape.values.append, self.tape.bounds.append
        others, resume = self._others, kernel.resume
        current: Task | None = None
        steps = 0
        while True:
            if fresh and (stop := self._prime(kernel, steps)):
                return stop
            if kernel.alive == 0:
                return Stop("finished", steps)
            if kernel.stopping:
                return Stop("stopped", steps)
            if steps >= step_limit:
                return Stop("step_limit", steps)
            if current is None:
                task = self._next()
                if task is None:
                    return Stop("deadlock", steps)
            elif others:
                index = pick([current, *others], current)
                value(index)
                bound(len(others) + 1)
                task = self._switch(kernel, current, index) if index else current
            else:
                task = current
            steps += 1
            try:
                if task.state is PAUSED and task.due > kernel.now:
                    kernel.now = task.due
                begin(task)
                point = task.point
                order.append(task.name)
                points.append(point)
                if kernel.on_step is not None:
                    kernel.on_step(task, point)
                resume(task)
                if kernel.after_step is not None:
                    kernel.after_step(task, point)
            except Exception as error:
                return Stop("raised", steps, error, task.name)
            current = task if task.state is READY else None
            if task.state is PAUSED:
                insort(others, task, key=_by_number)

    def _switch(self, kernel: Kernel, current: Task, index: int) -> Task:
        """Another task than the one that could go on."""
        others = self._others
        task = others.pop(index - 1)
        current.rank = (-1.0, kernel.sequence())
        insort(others, current, key=_by_number)
        return task

    def _next(self) -> Task | None:
        """Nobody has the turn: the first candidate is the virtual clock's choice."""
        others = self._others
        if len(others) < 2:
            return others.pop() if others else None
        at = others.index(min(others, key=_by_rank))
        index = self.strategy.pick([others[at], *others[:at], *others[at + 1 :]], None)
        self.tape.values.append(index)
        self.tape.bounds.append(len(others))
        if index == 0:
            return others.pop(at)
        return others.pop(index - 1 if index <= at else index)

    def _prime(self, kernel: Kernel, steps: int) -> Stop | None:
        """Run new tasks up to their first point; nothing is chosen and nobody else runs."""
        while kernel.fresh:
            task = kernel.fresh.pop(0)
            try:
                kernel.resume(task)
            except Exception as error:
                return Stop("raised", steps, error, task.name)
            if task.state is READY:
                task.rank = (-1.0, kernel.sequence())
            if task.state in (READY, PAUSED):
                insort(self._others, task, key=_by_number)
        return None


def begin(task: Task) -> None:
    """Count the segment; one that will be cancelled is announced as that."""
    if task._cancelled:
        task.point = task.point._replace(name="cancelled", write=True)
    task.steps += 1
