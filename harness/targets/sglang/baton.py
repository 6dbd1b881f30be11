"""A thread that runs only while it is told to, so that code which waits in the middle of a call can
be stepped like a task.

Invariant: of all batons and whoever advances them exactly one runs; who is never decided by the
operating system.
"""

import threading
from collections.abc import Callable
from typing import Any, ClassVar

WAKE_S = 0.5  # a watch on processor time speaks to the main thread


class _Abandoned(BaseException):
    """The run ended while this one stood."""


class Baton(threading.Thread):
    """Runs `work` from one stand to the next. `error` is what it raised."""

    current: ClassVar["Baton | None"] = None

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.error: BaseException | None = None
        self.call: Any = None  # the agreement that it waits in
        self.over = False
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._abandoned = False

    def run(self) -> None:
        try:
            self._wait()
            self._work()
        except _Abandoned:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.call = None
            self.over = True
            self._stopped.release()

    def advance(self) -> None:
        """Run until it stands or ends."""
        before, Baton.current = Baton.current, self
        self._go.release()
        while not self._stopped.acquire(timeout=WAKE_S):
            pass  # a signal that another thread was given is handled here, once this one wakes
        Baton.current = before

    def stand(self) -> None:
        """Of the one that runs: give the turn back until it is advanced."""
        self._stopped.release()
        self._wait()

    def agree(self, call: Any) -> None:
        """Of the one that runs: wait for the others of an agreement."""
        self.call = call
        self.stand()
        self.call = None

    def abandon(self) -> None:
        """It does not go on."""
        self._abandoned = True
        self._go.release()
        self.join()

    def _wait(self) -> None:
        self._go.acquire()
        if self._abandoned:
            raise _Abandoned
