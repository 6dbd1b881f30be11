"""The wall clock: pauses last as long as they say, and other threads may have something done.

Kernel time is real time since the run began. A task that pauses for a modelled forward or copy is
resumed when that much real time has passed; what its Python costs comes on top, unless the pause
is longer and hides it. Invariant: tasks and actions run in one thread, one at a time.
"""

import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush

from harness.explore.kernel import PAUSED, Kernel, Stop, Task
from harness.explore.pickers import begin

LONGEST_NAP_S = 3600.0
UNTIL_WOKEN_S = 1e9  # thirty years
NS = 1e9
Picked = Callable[[Task, int], None]  # which task goes on, and when: nanoseconds


class WallClock:
    """A picker. Ready tasks go first come first served, then those that are due.

    `call` may be used by any thread; everything else belongs to the thread that drives. An idle
    world sleeps: there is no deadlock, for an action may come at any time.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        on_pick: Picked = lambda task, now_ns: None,
    ) -> None:
        self._monotonic = monotonic
        self._on_pick = on_pick
        self._ready: deque[Task] = deque()
        self._due: list[tuple[float, int, Task]] = []
        self._actions: deque[Callable[[], None]] = deque()
        self._called = threading.Condition()
        self._closed = False
        self._origin = monotonic()

    def call(self, action: Callable[[], None]) -> bool:
        """Have `action` run between two segments, soon, in order of calling. False when the clock
        is closed and it never will."""
        with self._called:
            if not self._closed:
                self._actions.append(action)
                self._called.notify()
            return not self._closed

    def close(self) -> None:
        """Run what was still to be done and take no more; after `drive`, by the same thread."""
        with self._called:
            self._closed = True
        self._act()

    def time(self) -> float:
        """Kernel time at this moment, which is later than when the running segment began."""
        return self.at(self._monotonic())

    def at(self, moment: float) -> float:
        """Kernel time at a reading of the same monotonic clock."""
        return max(0.0, moment - self._origin)

    def until_woken(self, kernel: Kernel, name: str, obj: object = None) -> Awaitable[None]:
        """What a task awaits while something outside of the world goes on; `wake` ends it."""
        return kernel.pause(UNTIL_WOKEN_S, name, obj)

    def wake(self, task: Task) -> None:
        """A task that is `until_woken` is due. By the thread that drives: as a `call`."""
        if task.state is PAUSED:
            task.due = task.kernel.now
            heappush(self._due, (task.due, task.number, task))

    def draw(self, label: str, bound: int) -> int:
        return 0

    def make_ready(self, task: Task) -> None:
        self._ready.append(task)

    def drive(self, kernel: Kernel, step_limit: int) -> Stop:
        self._origin = self._monotonic() - kernel.now
        steps = 0
        while steps < step_limit:
            now_ns = int((self._monotonic() - self._origin) * NS)
            kernel.now = max(kernel.now, now_ns / NS)
            task: Task | None = None
            try:
                self._act()
                self._ready.extend(kernel.fresh)
                kernel.fresh.clear()
                if kernel.alive == 0:
                    return Stop("finished", steps)
                if kernel.stopping:
                    return Stop("stopped", steps)
                task = self._next(kernel.now)
                if task is None:
                    self._sleep(kernel.now)
                    continue
                steps += 1
                self._on_pick(task, round(kernel.now * NS))
                self._step(kernel, task)
            except Exception as error:
                return Stop("raised", steps, error, "" if task is None else task.name)
        return Stop("step_limit", steps)

    def _act(self) -> None:
        while self._actions:
            self._actions.popleft()()

    def _next(self, now: float) -> Task | None:
        due = self._due
        while due and (due[0][2].state is not PAUSED or due[0][2].due != due[0][0]):
            heappop(due)  # it was cancelled while it paused
        if self._ready:
            return self._ready.popleft()
        return heappop(due)[2] if due and due[0][0] <= now else None

    def _sleep(self, now: float) -> None:
        """Until somebody calls or the next task is due."""
        nap = self._due[0][0] - now if self._due else LONGEST_NAP_S
        with self._called:
            if not self._actions:
                self._called.wait(min(nap, LONGEST_NAP_S))

    def _step(self, kernel: Kernel, task: Task) -> None:
        begin(task)
        point = task.point
        if kernel.on_step is not None:
            kernel.on_step(task, point)
        kernel.resume(task)
        if kernel.after_step is not None:
            kernel.after_step(task, point)
        if task.state is PAUSED:
            heappush(self._due, (task.due, task.number, task))
