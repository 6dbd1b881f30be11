"""A watch on processor time: an operation that never comes back is a finding too.

Only what the main thread of a process runs, or waits for, can be watched; elsewhere nothing is. The
limit is hundreds of times what a whole run takes, and processor time does not pass while a process
waits for its turn.
"""

import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

LIMIT_S = 1.0  # of processor time, where a whole run takes a few hundredths


class Stalled(Exception):
    """One operation used the whole limit; `where` names it."""

    def __init__(self, where: str, limit_s: float) -> None:
        super().__init__(f"no end after {limit_s:g} s of processor time, in {where}")
        self.where = where


def of_the_cache(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("cache.")


def nobody() -> threading.Thread | None:
    return None


@contextmanager
def stall_watch(
    operation: Callable[[FrameType], bool] = of_the_cache,
    deputy: Callable[[], threading.Thread | None] = nobody,
    *,
    limit_s: float | None = None,
) -> Iterator[Callable[[], None]]:
    """Inside, whatever runs longer than the limit (`LIMIT_S`) is ended by a `Stalled`. Call what it
    gives at each step: the time starts anew. The outermost call that is an `operation` is named: it
    is the same whenever it is caught. `deputy()` is the thread that the main one waits for, if any:
    there it is raised, again and again while nobody lets it out. The main thread has to wake up now
    and then for that, since the signal may be given to any thread, and it alone handles it."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    limit = limit_s or LIMIT_S

    def start() -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, limit, limit)

    def stop(number: int, frame: FrameType | None) -> None:
        there = deputy()
        if there is None:
            raise Stalled(_outermost(operation, frame), limit)
        assert there.ident is not None, "it runs"
        where = _outermost(operation, sys._current_frames().get(there.ident))
        _raise_in(there.ident, where, limit)

    before = signal.signal(signal.SIGVTALRM, stop)
    start()
    try:
        yield start
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def _outermost(operation: Callable[[FrameType], bool], frame: FrameType | None) -> str:
    where = "no operation of the cache"
    while frame is not None:
        if operation(frame):
            where = frame.f_code.co_qualname
        frame = frame.f_back
    return where


def _raise_in(thread: int, where: str, limit_s: float) -> None:
    """What is raised in another thread is a class that is made there, without arguments."""

    class There(Stalled):
        def __init__(self) -> None:
            super().__init__(where, limit_s)

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(There))
