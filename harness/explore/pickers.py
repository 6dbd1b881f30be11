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
from harness.explore.tape import Tape

_by_number = attrgetter("number")
_by_rank = attrgetter("rank")


class VirtualClock:
    """Ready tasks first come first served, then the one that is due first, ties by task number.

    ``draws(label, bound)`` answers ``Kernel.draw``; without it every draw is 0. Points do not
    suspend here, so a step is a segment that ends in a pause, a wait or the end of its task.
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
        steps = 0
        while True:
            if kernel.fresh:
                ready.extend(kernel.fresh)
                kernel.fresh.clear()
            if kernel.alive == 0:
                return Stop("finished", steps)
            if kernel.stopping:
                return Stop("stopped", steps)
            if ready:
                task = ready.popleft()
            elif due:
                now, _, task = heappop(due)
                if task.state is not PAUSED or task.due != now:
                    continue  # it was cancelled while it paused
                kernel.now = now
            else:
                return Stop("deadlock", steps)
            if steps >= step_limit:
                return Stop("step_limit", steps)
            steps += 1
            try:
                _begin(kernel, task)
                kernel.resume(task)
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

    def draw(self, label: str, bound: int) -> int:
        value = self.strategy.draw(label, bound)
        self.tape.record_draw(label, value, bound)
        return value

    def make_ready(self, task: Task) -> None:
        insort(self._others, task, key=_by_number)

    def drive(self, kernel: Kernel, step_limit: int) -> Stop:
        kernel.inline = False
        order, current, steps = self.tape.order, None, 0
        task = None
        while True:
            try:
                while kernel.fresh:
                    task = kernel.fresh.pop(0)
                    self._prime(kernel, task)
            except Exception as error:
                return Stop("raised", steps, error, task.name if task else "")
            if kernel.alive == 0:
                return Stop("finished", steps)
            if kernel.stopping:
                return Stop("stopped", steps)
            task = self._go_on(kernel, current) if current else self._next()
            if task is None:
                return Stop("deadlock", steps)
            if steps >= step_limit:
                return Stop("step_limit", steps)
            steps += 1
            if task.state is PAUSED and task.due > kernel.now:
                kernel.now = task.due
            order.append(task.name)
            try:
                _begin(kernel, task)
                kernel.resume(task)
            except Exception as error:
                return Stop("raised", steps, error, task.name)
            current = task if task.state is READY else None
            if task.state is PAUSED:
                insort(self._others, task, key=_by_number)

    def _go_on(self, kernel: Kernel, current: Task) -> Task:
        """The current task could go on: it is the first candidate."""
        others = self._others
        if not others:
            return current
        index = self.strategy.pick([current, *others], current)
        self.tape.record_pick(index, len(others) + 1)
        if index == 0:
            return current
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
        self.tape.record_pick(index, len(others))
        if index == 0:
            return others.pop(at)
        return others.pop(index - 1 if index <= at else index)

    def _prime(self, kernel: Kernel, task: Task) -> None:
        """Run a new task up to its first point; nothing is chosen and nobody else runs."""
        kernel.resume(task)
        if task.state is READY:
            task.rank = (-1.0, kernel.sequence())
        if task.state in (READY, PAUSED):
            insort(self._others, task, key=_by_number)


def _begin(kernel: Kernel, task: Task) -> None:
    """Count the segment, write it on the trail, tell the listener."""
    if task._cancelled:
        task.point = task.point._replace(name="cancelled", write=True)
    task.steps += 1
    kernel.trail.add(task.name, task.point)
    if kernel.on_step is not None:
        kernel.on_step(task, task.point)
