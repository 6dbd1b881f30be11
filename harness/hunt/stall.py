"""A watch on processor time: an operation that never comes back is a finding too.

Only the main thread of a process can be watched; elsewhere nothing is. The limit is hundreds of
times what a whole run takes, and processor time does not pass while a process waits for its turn.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

LIMIT_S = 1.0  # of processor time, where a whole run takes a few hundredths


class Stalled(Exception):
    """One operation used the whole limit; `where` names it."""

    def __init__(self, where: str) -> None:
        super().__init__(f"no end after {LIMIT_S:g} s of processor time, in {where}")


@contextmanager
def stall_watch() -> Iterator[Callable[[], None]]:
    """Inside, whatever runs longer than the limit is ended by a `Stalled`. Call what it gives at
    each step: the time starts anew."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = signal.signal(signal.SIGVTALRM, _stop)
    _start()
    try:
        yield _start
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def _start() -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)


def _stop(number: int, frame: FrameType | None) -> None:
    """Names the outermost operation of the cache: that one is the same whenever it is caught."""
    where = "no operation of the cache"
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("cache."):
            where = frame.f_code.co_qualname
        frame = frame.f_back
    raise Stalled(where)
