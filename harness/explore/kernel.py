"""A trampoline for native coroutines: the one place where "what happens next" is decided.

Tasks announce a named point *before* each atomic segment; a picker (see ``pickers``) chooses which
task runs its next segment. The same task code runs on the virtual clock, where points cost next to
nothing, and under a search, where every point is a choice.

Invariant: exactly one task runs at a time, and it runs undisturbed from one point to the next.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable
from enum import Enum
from types import coroutine
from typing import Any, Final, Literal, NamedTuple, Protocol, cast

from harness.explore.trail import Trail


class Point(NamedTuple):
    """What a task is about to do: a stable public name, and the object it does it to.

    ``obj`` is built of str, int and tuples only, because it enters the digest:
    ``("node", 9)``, ``("pool", "swa")``, ``("request", "R3")``.
    """

    name: str
    obj: object = None
    write: bool = True


class State(Enum):
    """Where a task stands; a task is runnable when it is READY or PAUSED."""

    READY = "ready"
    PAUSED = "paused"
    BLOCKED = "blocked"
    RUNNING = "running"
    DONE = "done"


READY: Final = State.READY
PAUSED: Final = State.PAUSED
BLOCKED: Final = State.BLOCKED
RUNNING: Final = State.RUNNING
DONE: Final = State.DONE

START: Final = Point("start")


class Cancelled(Exception):
    """Thrown into a task by ``Kernel.cancel``; a task that lets it escape ends quietly."""


class Task:
    """One coroutine under the kernel; read its fields, never set them.

    ``number`` counts spawns of this kernel, ``steps`` counts the segments the task has begun, and
    ``rank`` orders runnable tasks as the virtual clock would run them.
    """

    __slots__ = (
        "_cancelled",
        "_signal",
        "coro",
        "daemon",
        "due",
        "kernel",
        "name",
        "number",
        "point",
        "rank",
        "state",
        "steps",
    )

    def __init__(
        self, kernel: "Kernel", name: str, number: int, coro: Coroutine[Any, Any, Any], daemon: bool
    ) -> None:
        self.name = name
        self.number = number
        self.coro = coro
        self.daemon = daemon
        self.state = READY
        self.point = START
        self.due = 0.0
        self.steps = 0
        self.rank: tuple[float, int] = (-1.0, 0)
        self.kernel = kernel
        self._signal: Signal | None = None
        self._cancelled = False

    def __repr__(self) -> str:
        return f"<{self.name} {self.state.value} at {self.point.name}>"


class Signal:
    """Wakes every waiter when fired; a waiter re-checks its condition in a loop.

    No wake-up is lost: nothing else runs between the check and the wait that follows it.
    """

    __slots__ = ("_waiters", "name")

    def __init__(self, name: str = "signal") -> None:
        self.name = name
        self._waiters: list[Task] = []

    def fire(self) -> None:
        """Make every waiting task runnable, in the order in which they came to wait."""
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for task in waiters:
                task._signal = None
                task.kernel.make_ready(task)

    def __repr__(self) -> str:
        return f"Signal({self.name!r})"


class Waiting(NamedTuple):
    """One line of a deadlock: who waits, at which point, for which signal."""

    task: str
    point: Point
    signal: str


Reason = Literal["finished", "deadlock", "livelock", "step_limit", "raised", "stopped"]


class Ended(NamedTuple):
    """How a run ended. ``error`` and ``task`` are set for "raised", ``waiting`` for "deadlock"."""

    reason: Reason
    steps: int
    trail: Trail
    now: float
    error: Exception | None = None
    task: str = ""
    waiting: tuple[Waiting, ...] = ()

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over every task, point, object and draw, in order."""
        return self.trail.digest()


class Stop(NamedTuple):
    """What a picker's loop hands back to the kernel: why it stopped, after how many steps."""

    reason: Reason
    steps: int
    error: Exception | None = None
    task: str = ""


class Picker(Protocol):
    """Decides which task runs next; the loop is its own, so that each can be tight."""

    def drive(self, kernel: "Kernel", step_limit: int) -> Stop: ...

    def make_ready(self, task: Task) -> None: ...

    def draw(self, label: str, bound: int) -> int: ...


@coroutine
def _suspend() -> Generator[None, None, None]:
    yield


def _exhausted() -> Awaitable[None]:
    """A generator-based coroutine that is over: awaiting it again and again never suspends."""
    awaitable = _suspend()
    cast(Generator[None, None, None], awaitable).close()
    return awaitable


FINISHED: Final = _exhausted()
_new_tuple = tuple.__new__


class Kernel:
    """Runs tasks to their end under one picker; made for one run and then thrown away.

    ``on_step(task, point)`` is called as each segment starts, that is *before* the operation the
    point names and after everything earlier; ``after_step(task, point)`` when the segment is over,
    on the virtual clock only where it suspends. ``on_end(ended)`` is called once, before the
    coroutines left over are closed. An exception from a task or from a step's listener ends the
    run as "raised". ``state_key()`` gives everything of the scenario that decides how it goes on,
    the tasks' own variables included; only an exhaustive search with state hashing asks for it.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.current: Task | None = None
        self.on_step: Callable[[Task, Point], None] | None = None
        self.after_step: Callable[[Task, Point], None] | None = None
        self.on_end: Callable[[Ended], None] | None = None
        self.state_key: Callable[[], Hashable] | None = None
        self.tasks: list[Task] = []
        self.fresh: list[Task] = []
        self.alive = 0
        self.stopping = False
        self.inline = True
        self.trail = Trail()
        self._names: dict[str, Task] = {}
        self._sequence = 0
        self._closing = False
        self._picker: Picker | None = None

    def spawn(self, name: str, coro: Coroutine[Any, Any, Any], *, daemon: bool = False) -> Task:
        """Add a task; ``name`` is unique in this kernel. A daemon does not keep the run alive.

        Code before the task's first point belongs to the segment of its spawner: under a search it
        runs as soon as that segment ends, without being a choice.
        """
        if self._closing:
            coro.close()
            return Task(self, name, -1, coro, daemon)
        assert name not in self._names, f"two tasks named {name!r}"
        task = Task(self, name, len(self.tasks), coro, daemon)
        self._names[name] = task
        self.tasks.append(task)
        self.alive += not daemon
        self.fresh.append(task)
        return task

    def point(self, name: str, obj: object = None, write: bool = True) -> Awaitable[None]:
        """A place where other tasks may run; the caller is runnable at once."""
        if self.inline:
            if self.on_step is not None and self.current is not None:
                self.on_step(self.current, Point(name, obj, write))
            return FINISHED
        task = self._leaving()
        task.point = _new_tuple(Point, (name, obj, write))
        task.state = READY
        return _suspend()

    def pause(self, seconds: float, name: str, obj: object = None) -> Awaitable[None]:
        """Runnable again when ``seconds`` have passed; under a search, at any time."""
        if self._closing:
            return FINISHED
        assert seconds >= 0, seconds
        task = self._leaving()
        task.point = _new_tuple(Point, (name, obj, True))
        task.state = PAUSED
        task.due = due = self.now + seconds
        task.rank = (due, task.number)
        return _suspend()

    def wait(self, signal: Signal, name: str, obj: object = None) -> Awaitable[None]:
        """Blocked until ``signal`` fires; re-check the condition in a loop around this."""
        if self._closing:
            raise Cancelled("the run is over")
        task = self._leaving()
        task.point = _new_tuple(Point, (name, obj, True))
        task.state = BLOCKED
        task._signal = signal
        signal._waiters.append(task)
        return _suspend()

    def draw(self, label: str, bound: int) -> int:
        """A labelled choice of 0..bound-1 from the tape; 0 is the benign outcome.

        On the virtual clock it is 0 unless the clock was given a seeded source.
        """
        assert bound >= 1, bound
        if bound == 1 or self._picker is None or self._closing:
            return 0
        value = self._picker.draw(label, bound)
        assert 0 <= value < bound, (label, value, bound)
        self.trail.add(label, ("=", value))
        return value

    def cancel(self, task: Task) -> bool:
        """Throw ``Cancelled`` into ``task`` at its point, when it is next picked.

        Returns False when the task is already done. A task cannot cancel itself.
        """
        if task.state is DONE:
            return False
        assert task is not self.current, "a task cannot cancel itself"
        task._cancelled = True
        if task.state is BLOCKED:
            if task._signal is not None:
                task._signal._waiters.remove(task)
                task._signal = None
            self.make_ready(task)
        elif task.state is PAUSED and self.inline:
            self.make_ready(task)
        return True

    def stop(self) -> None:
        """End the run as "stopped" once the running segment is over."""
        self.stopping = True

    def run(self, picker: Picker, *, step_limit: int) -> Ended:
        """Run until every task that is no daemon is done, or the run ends otherwise.

        Leaves every coroutine closed. Errors of the picker itself, such as a divergence in a strict
        replay, are raised.
        """
        assert self._picker is None, "a kernel runs once"
        self._picker = picker
        try:
            ended = self._ended(picker.drive(self, step_limit))
            if self.on_end is not None:
                self.on_end(ended)
            return ended
        finally:
            self._close()

    # For pickers.

    def sequence(self) -> int:
        """The next number of this kernel's only counter; orders ready tasks first come first."""
        self._sequence += 1
        return self._sequence

    def make_ready(self, task: Task) -> None:
        """Make a blocked task runnable; only signals and ``cancel`` need this."""
        if self._closing:
            return
        task.state = READY
        task.rank = (-1.0, self.sequence())
        if self._picker is not None:
            self._picker.make_ready(task)

    def resume(self, task: Task) -> None:
        """Run ``task`` to its next announcement or its end; exceptions other than its end escape.

        The caller has counted the step; on return the task's state says what it awaits.
        """
        self.current = task
        task.state = RUNNING
        try:
            if task._cancelled:
                task._cancelled = False
                task.coro.throw(Cancelled(f"{task.name} was cancelled at {task.point.name}"))
            else:
                task.coro.send(None)
        except (StopIteration, Cancelled):
            task.state = DONE
            self.alive -= not task.daemon
        else:
            assert task.state is not RUNNING, f"{task.name} awaited something not of this kernel"

    def _leaving(self) -> Task:
        task = self.current
        assert task is not None, "only a running task announces points"
        assert task.state is RUNNING, f"{task.name} announced a point without awaiting it"
        return task

    def _ended(self, stop: Stop) -> Ended:
        waiting: tuple[Waiting, ...] = ()
        if stop.reason == "deadlock":
            blocked = sorted((t for t in self.tasks if t.state is BLOCKED), key=lambda t: t.daemon)
            waiting = tuple(
                Waiting(t.name, t.point, t._signal.name if t._signal else "") for t in blocked
            )
        trail = self.trail
        return Ended(stop.reason, stop.steps, trail, self.now, stop.error, stop.task, waiting)

    def _close(self) -> None:
        """Unwind what is left; the run is over, so errors of unwinding say nothing about it."""
        self._closing = self.inline = True
        self.on_step = self.after_step = None
        for task in self.tasks:
            if task.state is not DONE:
                self.current = task
                task.state = DONE
                try:
                    task.coro.close()
                except Exception:
                    continue
        self.current = None
