"""A device whose streams run only when the world says so; stands where `torch.cuda` would.

The release's own controller issues copies and events to it exactly as it does on a GPU. Work issued
to the default stream runs at once; work of a named stream waits in line until `run_next`.

Invariant: a stream runs its work in the order of issue, and an event is done when all that was
issued before it has run.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

Work = Callable[[], None]


class Copy(NamedTuple):
    """A copy between the tiers: which slots of which component, `to_host` or back."""

    component: str
    to_host: bool
    host: Any
    device: Any


class Event:
    """Done at once when recorded on the default stream; a fresh one counts as done, as on CUDA."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._pending = 0
        self._stream: Stream | None = None
        self._after: list[Event] = []

    def record(self, stream: "Stream | None" = None) -> None:
        (stream or Device.current).issue_event(self)

    def query(self) -> bool:
        return self._pending == 0 and all(event.query() for event in self._after)

    def synchronize(self) -> None:
        """The scheduler thread waits here: whatever was issued before the event runs now."""
        for event in self._after:
            event.synchronize()
        while self._pending:
            assert self._stream is not None
            self._stream.run_to_next()

    def wait(self, stream: "Stream | None" = None) -> None:
        (stream or Device.current).wait_event(self)

    def follow(self, events: list["Event"]) -> None:
        """Recorded on a stream that waits for `events`."""
        self._after = [event for event in events if not event.query()]

    def expect(self, stream: "Stream") -> None:
        self._pending += 1
        self._stream = stream

    def reached(self) -> None:
        self._pending -= 1


class Stream:
    """A line of work. On the default stream, named "", work runs at once; only its events wait."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.name = ""
        self.deferred = False
        self._line: deque[tuple[str, Work | Event]] = deque()
        self._copies: deque[Copy | None] = deque()
        self._waits: list[Event] = []
        self.ran = 0  # pieces of work
        self.forced: Callable[[Stream], None] = _unnoticed  # somebody waits for its next piece

    def issue(self, what: str, work: Work, copy: Copy | None = None) -> None:
        if self.deferred:
            self._line.append((what, work))
            self._copies.append(copy)
        else:
            work()

    @property
    def copies(self) -> list[Copy]:
        """The copies that have not run, in order."""
        return [copy for copy in self._copies if copy is not None]

    @property
    def next_copy(self) -> Copy | None:
        """The copy that the next piece of work is, None where it is none."""
        return self._copies[0] if self._copies else None

    def issue_event(self, event: Event) -> None:
        if self.deferred and self._line:
            event.expect(self)
            self._line.append(("event", event))
        if not self.deferred:
            event.follow(self._waits)

    def wait_event(self, event: Event) -> None:
        if event.query():
            return
        if self.deferred:
            self._line.append(("wait", event))
        else:
            self._waits = [*(e for e in self._waits if not e.query()), event]

    def wait_stream(self, other: "Stream") -> None:
        if other.behind:
            event = Event()
            event.record(other)
            self.wait_event(event)

    @property
    def next_work(self) -> str:
        """What the next piece of work is, "" where none waits."""
        return next((what for what, work in self._line if not isinstance(work, Event)), "")

    @property
    def behind(self) -> bool:
        return bool(self._line)

    @property
    def ready(self) -> bool:
        """Whether `run_next` would get on."""
        return bool(self._line) and not (
            self._line[0][0] == "wait"
            and isinstance(self._line[0][1], Event)
            and not self._line[0][1].query()
        )

    def run_to_next(self) -> None:
        """`run_next`, after what it waits for."""
        if not self.ready:
            awaited = self._line[0][1]
            assert isinstance(awaited, Event)
            awaited.synchronize()
        self.forced(self)
        self.run_next()

    def pass_marks(self) -> int:
        """Mark the events before which nothing is left to run, and pass the waits that are over;
        how many. Where it gets on then, work is next."""
        passed = 0
        while self.ready and isinstance(event := self._line[0][1], Event):
            if self._line.popleft()[0] == "event":
                event.reached()
            passed += 1
        return passed

    def run_next(self) -> str:
        """Run one piece of work and mark the events behind it; returns what was run."""
        done = ""
        while self.ready:
            what, work = self._line[0]
            if not isinstance(work, Event):
                if done:
                    break
                done = what
                work()
                self.ran += 1
                self._copies.popleft()
            elif what == "event":
                work.reached()
            self._line.popleft()
        return done


def _unnoticed(stream: Stream) -> None: ...


class Device:
    """Which stream work is issued to, and the module that a release asks for events and streams."""

    default = Stream()
    current = default


@contextmanager
def _on(stream: Stream) -> Iterator[None]:
    before, Device.current = Device.current, stream
    try:
        yield
    finally:
        Device.current = before


def device_module() -> Any:
    """What stands where `torch.cuda` would."""
    return SimpleNamespace(
        Event=Event,
        Stream=Stream,
        stream=_on,
        current_stream=lambda: Device.current,
        synchronize=lambda: None,
    )
