"""What stands where a release's controller finds threads, queues and the time, once storage is
attached: its thread functions run as the release wrote them, and go on only when the world says so.

A worker stands where a thread may have to wait: as it takes from a queue, at each call of the
storage, and in an agreement between ranks. Between two stands it runs undisturbed.

Invariant: nothing here asks the real clock, and nothing runs beside anything else.
"""

from collections import deque
from collections.abc import Callable
from queue import Empty
from types import SimpleNamespace
from typing import Any, ClassVar

from harness.targets.sglang.baton import Baton
from harness.targets.sglang.broken import Broken

# The release's thread functions, and what they are called here.
NAMES = {
    "prefetch_thread_func": "query",
    "prefetch_io_aux_func": "fetch",
    "prefetch_sync_thread_func": "report",
    "backup_thread_func": "persist",
}
HOMES = ("cache_controller", "hybrid_cache_controller", "unified_radix_cache", "poll_timer")
TURNS_AT_END = 1_000


class Site:
    """What one server process has for itself: its workers, its clock, and its storage."""

    current: ClassVar["Site"]  # whose code runs

    def __init__(self, storage: Any) -> None:
        self.storage = storage
        self.workers: dict[str, Worker] = {}
        self.now = 0.0

    def close(self) -> None:
        """The run is over."""
        for worker in self.workers.values():
            worker.abandon()


Site.current = Site(None)  # of servers without storage


class Worker(Baton):
    """A thread of the controller. `at` names what it does next."""

    def __init__(self, target: Callable[[], None], daemon: bool = True) -> None:
        super().__init__(target)
        self.at = "start"
        self.site = Site.current
        self.leaving = False
        self._function = target.__name__
        self._ready: Callable[[], bool] = lambda: True

    @property
    def ready(self) -> bool:
        """Whether it would get on."""
        return not self.over and self.call is None and self._ready()

    def start(self) -> None:
        """Runs to its first stand."""
        self.site.workers[NAMES[self._function]] = self
        super().start()
        self.advance()

    def halt(self, at: str, ready: Callable[[], bool] | None = None) -> None:
        """Of the one that runs: stand here until it is advanced, and `ready`."""
        self.at, self._ready = at, ready or (lambda: True)
        self.stand()

    def agree(self, call: Any) -> None:
        """It goes on when the agreement is there, whatever it waited for before."""
        self.at, self._ready = "agree", lambda: True
        super().agree(call)

    def join(self, timeout: float | None = None) -> None:
        """The release stops its threads: whatever they still do is done now."""
        self.leaving = not self._abandoned
        for _ in range(TURNS_AT_END if self.leaving else 0):
            if self.over:
                break
            self.advance()
        super().join()


def halt(at: str) -> None:
    """Whoever calls the storage waits for it, if it is a worker."""
    if isinstance(Baton.current, Worker):
        Baton.current.halt(at)


class Queue:
    """`queue.Queue`, between a scheduler and its workers."""

    def __init__(self, maxsize: int = 0) -> None:
        self.queue: deque[Any] = deque()

    def __class_getitem__(cls, item: Any) -> "type[Queue]":
        return cls

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self.queue.append(item)

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        worker = Baton.current
        if isinstance(worker, Worker):
            worker.halt("take", lambda: bool(self.queue) or worker.leaving)
        elif block and timeout is None and not self.queue:
            raise Broken(
                "P1", "the scheduler waits for a queue that stays empty", "an item", "none"
            )
        if not self.queue:
            raise Empty
        return self.queue.popleft()

    def get_nowait(self) -> Any:
        if not self.queue:
            raise Empty
        return self.queue.popleft()

    def empty(self) -> bool:
        return not self.queue

    def qsize(self) -> int:
        return len(self.queue)


def now() -> float:
    """Seconds that this process counts; they pass when the world says so."""
    return Site.current.now


def install(homes: list[Any]) -> None:
    """Put all this in place of the standard library, in the modules of a release that are told."""
    import threading

    threads = SimpleNamespace(Thread=Worker, Event=threading.Event, Lock=threading.Lock)
    clock = SimpleNamespace(monotonic=now, perf_counter=now, time=now)
    for module in homes:
        if module.__name__.rpartition(".")[2] not in HOMES:
            continue
        for name, value in (("threading", threads), ("time", clock), ("Queue", Queue)):
            if name in vars(module):
                setattr(module, name, value)
