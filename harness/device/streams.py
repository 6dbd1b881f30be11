"""Streams of real work, and events that order them: threads on the CPU, CUDA streams on a GPU.

A stream does one *job* after another, a job one *step* after another, and every step has an
*event* that comes when the step is over. Work of different streams is ordered by events only:

    written = compute.submit([forward]).end         the forward that writes the pages
    backup = d2h.submit(layers, after=[written])    moves them, not before
    ...
    load = h2d.submit(layers, after=[compute.record()])   into pages that an older forward still
                                                          uses, so behind all that was launched
    compute.submit([lambda: use(load.events[0].wait())])  waits for the first layer, not for all

One code path: each stream is a worker thread that takes jobs off a queue. On the CPU it does the
work; on CUDA it launches it on a CUDA stream of its own, and an event is a flag ("launched") and a
CUDA event behind it. So a waiter may wait for a step that nobody has launched yet.

Invariant: whoever waits for an event waits for a job that was submitted before its own, so nobody
waits in a circle.
"""

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Self

import torch

Step = Callable[[], None]


class Event:
    """Comes when one step of one job is over, whether it was done or the job broke before it."""

    __slots__ = ("_broken", "_cuda", "_over")

    def __init__(self) -> None:
        self._over = threading.Event()
        self._cuda: torch.cuda.Event | None = None
        self._broken = False

    @classmethod
    def past(cls) -> "Event":
        """One that has come, for what needs no waiting."""
        event = cls()
        event._over.set()
        return event

    @property
    def broken(self) -> bool:
        """Whether the step was not done and never will be. False while that is open."""
        return self._broken

    @property
    def done(self) -> bool:
        """Whether it has come. Never blocks."""
        if not self._over.is_set() or self._cuda is None:
            return self._over.is_set()
        return bool(self._cuda.query())  # type: ignore[no-untyped-call]

    def wait(self) -> bool:
        """Put what the caller does next behind the step. False when the step is `broken`: what it
        was to bring is not there.

        On the CPU the calling thread blocks until the step is over. On CUDA it blocks until the
        step is launched, and its current CUDA stream waits for the rest."""
        self._over.wait()
        if self._cuda is not None:
            self._cuda.wait()
        return not self._broken

    def synchronize(self) -> bool:
        """As `wait`, but the calling thread blocks until the bytes are there on CUDA too."""
        self._over.wait()
        if self._cuda is not None:
            self._cuda.synchronize()
        return not self._broken

    def _come(self, cuda: "torch.cuda.Event | None", *, broken: bool = False) -> None:
        self._cuda, self._broken = cuda, broken
        self._over.set()


class Job:
    """What was submitted in one go: `events[i]` comes with step i, `end` with the last.

    `error` is what a step raised; the steps after it were not done. Read it once `end` is done."""

    __slots__ = ("_after", "_on_end", "_steps", "error", "events")

    def __init__(
        self,
        steps: Sequence[Step],
        after: Sequence[Event],
        on_end: "Callable[[Job], None] | None",
    ) -> None:
        assert steps, "a job has something to do"
        self.events = tuple(Event() for _ in steps)
        self.error: Exception | None = None
        self._steps = tuple(steps)
        self._after = tuple(after)
        self._on_end = on_end

    @property
    def end(self) -> Event:
        return self.events[-1]


class Stream:
    """One line of work on `device`. `submit` and `record` are for the scheduler's thread; events
    may be waited for by any. Close it, or use it as a context manager: `close` ends its threads."""

    def __init__(self, name: str, device: torch.device | str = "cpu") -> None:
        self.name = name
        self.device = torch.device(device)
        self._last = Event.past()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._launched: SimpleQueue[Job | None] = SimpleQueue()
        on_gpu = self.device.type == "cuda"
        self._cuda = (
            torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
            if on_gpu
            else None
        )
        self._threads = [threading.Thread(target=self._work, name=name, daemon=True)]
        if on_gpu:
            ends = threading.Thread(target=self._watch, name=f"{name}.ends", daemon=True)
            self._threads.append(ends)
        for thread in self._threads:
            thread.start()

    def submit(
        self,
        steps: Sequence[Step],
        *,
        after: Sequence[Event] = (),
        on_end: Callable[[Job], None] | None = None,
    ) -> Job:
        """Queue `steps`, to be done once every event of `after` has come, behind all that was
        submitted before. Returns at once.

        A step runs in the stream's thread, with its CUDA stream current, and touches bytes only.
        `on_end(job)` is called in a thread of the stream when the last step is over (on CUDA: the
        bytes are there) or one has raised; hand it on to the scheduler's thread from there."""
        job = Job(steps, after, on_end)
        self._last = job.end
        self._jobs.put(job)
        return job

    def record(self) -> Event:
        """Comes when all that has been submitted so far is over."""
        return self._last

    def close(self) -> None:
        """Finish what was submitted, then end. Nothing may be submitted afterwards."""
        self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- in its threads ------------------------------------------------------------------------

    def _work(self) -> None:
        with torch.cuda.stream(self._cuda):  # which does nothing without one
            while (job := self._jobs.get()) is not None:
                self._do(job)
                if self._cuda is None:
                    _tell(job)
                else:
                    self._launched.put(job)
        self._launched.put(None)

    def _do(self, job: Job) -> None:
        for event in job._after:
            event.wait()
        for step, event in zip(job._steps, job.events, strict=True):
            cuda = None
            try:
                if job.error is None:
                    step()
                if self._cuda is not None:
                    cuda = self._cuda.record_event()
            except Exception as error:
                job.error = error
            event._come(cuda, broken=job.error is not None)

    def _watch(self) -> None:
        """On CUDA: wait for the bytes, so that nobody else has to."""
        while (job := self._launched.get()) is not None:
            try:
                job.end.synchronize()
            except RuntimeError as error:
                job.error = job.error or error
            _tell(job)


def so_far(device: torch.device | str) -> Event:
    """Comes when all that the calling thread itself has launched is over: on the CPU it is."""
    event = Event.past()
    if torch.device(device).type == "cuda":
        event._come(torch.cuda.current_stream(device).record_event())
    return event


def _tell(job: Job) -> None:
    if job._on_end is not None:
        job._on_end(job)
