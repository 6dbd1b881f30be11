"""A soak on the wall clock: decisions written down, Ctrl-C taken between two segments."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType

from harness.explore.kernel import Kernel, Picker, Task
from harness.record.decisions import Decisions
from harness.serve.wall_clock import Picked, WallClock


@contextmanager
def recorded_clock(folder: Path, also: Picked = lambda task, now_ns: None) -> Iterator[WallClock]:
    """A wall clock whose decisions are written into a run's folder, and told to `also`."""
    decisions = Decisions(folder)

    def pick(task: Task, now_ns: int) -> None:
        decisions.add(task.number, now_ns, task.point.name)
        also(task, now_ns)

    try:
        yield WallClock(on_pick=pick)
    finally:
        decisions.close()


@contextmanager
def stopping_on_interrupt(kernel: Kernel, clock: Picker) -> Iterator[None]:
    """On the wall clock the first Ctrl-C stops the kernel when the running segment is over, so that
    what was decided is whole; the second one is the usual one, as all are on other clocks."""
    if not isinstance(clock, WallClock) or current_thread() is not main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, usual)
        clock.call(kernel.stop)

    usual = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
