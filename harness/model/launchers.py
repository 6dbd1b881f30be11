"""Where a forward is computed: in the world's own thread when the virtual clock says that it is
over, or in a thread beside a world on the wall clock. There it may begin ahead of load-backs, and
waits for each layer of them when it comes to it.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from cache.config import Component
from cache.transfers import Copy
from harness.device.copies import Flight
from harness.device.streams import Event, Stream, so_far
from harness.engine.compute import Compute, Work
from harness.engine.executor import seconds_of
from harness.engine.overlap import Ahead
from harness.explore.kernel import Kernel, Task
from harness.model.network import Ready, at_once
from harness.serve.wall_clock import WallClock

T = TypeVar("T")
MOST_ASIDE = 64  # questions that wait to be looked into; further ones are dropped


class VirtualLauncher:
    """A forward takes the time that `compute` says, or until what it began ahead of has landed if
    that is later, and is computed at its end. `ahead` counts those that began ahead of something.
    """

    dropped = 0

    def __init__(self, kernel: Kernel, compute: Compute) -> None:
        self._kernel = kernel
        self._compute = compute
        self.ahead = 0

    async def run(self, name: str, work: Work, action: Callable[[Ready], T], ahead: Ahead) -> T:
        self.ahead += bool(ahead.copies)
        await self._kernel.pause(seconds_of(self._compute, work), name)
        await ahead.landed()
        return action(at_once)

    def aside(self, action: Callable[[], T], then: Callable[[T], None]) -> None:
        then(action())

    def close(self) -> None: ...

    def cut(self) -> None: ...


class WallLauncher:
    """A forward takes the time that it takes, in a thread of its own; what is aside is done in
    another one, as far as there is time. `dropped` counts what was not.

    `flights(copies)` are those of the copies that are on their way: a forward that begins ahead of
    them waits for their layers. Where one breaks, it goes on with whatever lies there; its caller
    discards what was computed. `ahead` counts forwards that began ahead of something.

    `close` waits for both, `cut` for what has begun; then the clock may be closed. `on_forward` is
    told what each forward was that waited for nothing, how many seconds the world's thread had been
    at it before it was launched, and how many it took from there. `before` is
    called before each is launched, by the world's thread.

    A clock that follows another may go on before the forward is over here: then it is waited for.
    """

    def __init__(
        self,
        kernel: Kernel,
        clock: WallClock,
        device: str,
        on_forward: Callable[[Work, float, float], None] = lambda work, turn_s, seconds: None,
        *,
        flights: Callable[[Sequence[Copy]], Sequence[Flight]],
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._before = before
        self._kernel = kernel
        self._clock = clock
        self._device = device
        self._on_forward = on_forward
        self._forwards = Stream("forward", device)
        self._asides = ThreadPoolExecutor(1, thread_name_prefix="aside")
        self._flights = flights
        self._waiting = 0
        self.dropped = 0
        self.ahead = 0

    async def run(self, name: str, work: Work, action: Callable[[Ready], T], ahead: Ahead) -> T:
        task = self._kernel.current
        assert task is not None
        turn_s = max(0.0, self._clock.time() - self._kernel.now)
        self._before()
        results: list[T] = []
        ready = self._ready(ahead)
        began = time.perf_counter()
        job = self._forwards.submit(
            [lambda: results.append(action(ready))],
            after=[so_far(self._device)],
            on_end=lambda _: self._wake(task),
        )
        await self._clock.until_woken(self._kernel, name)
        job.end.synchronize()
        if job.error is not None:
            raise job.error
        if ahead.copies:
            self.ahead += 1
        else:
            self._on_forward(work, turn_s, time.perf_counter() - began)
        await ahead.landed()
        return results[0]

    def _ready(self, ahead: Ahead) -> Ready:
        """Called in the scheduler's thread before the forward is launched, so that each copy is on
        its stream by then and never waits for the forward that waits for it."""
        flights = self._flights(ahead.copies)

        def wait(component: Component, layer: int) -> None:
            for flight in flights:
                flight.layer_ready((component, layer)).wait()

        return wait

    def fence(self) -> list[Event]:
        """What comes when every forward that has been launched is over, and what the world's own
        thread has done to the pools."""
        return [self._forwards.record(), so_far(self._device)]

    def aside(self, action: Callable[[], T], then: Callable[[T], None]) -> None:
        if self._waiting >= MOST_ASIDE:
            self.dropped += 1
            return
        self._waiting += 1
        done = self._asides.submit(action)
        done.add_done_callback(lambda _: self._tell(done, then))

    def close(self) -> None:
        self._forwards.close()
        self._asides.shutdown()

    def cut(self) -> None:
        self._forwards.close()
        self._asides.shutdown(cancel_futures=True)

    def _wake(self, task: Task) -> None:
        self._clock.call(lambda: self._clock.wake(task))

    def _tell(self, done: "Future[T]", then: Callable[[T], None]) -> None:
        def told() -> None:
            self._waiting -= 1
            if not done.cancelled():
                then(done.result())

        self._clock.call(told)
