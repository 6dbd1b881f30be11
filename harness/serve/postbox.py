"""News of tickets, from the engine's thread to the server's event loop.

Invariant: at most one delivery is on its way, however much news there is, so a busy loop holds no
more than one entry for each open ticket.
"""

import asyncio
import threading
from contextlib import suppress

from harness.serve.received import Ticket


class Postbox:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._news: dict[Ticket, None] = {}
        self._under_way = False
        self._events: dict[Ticket, asyncio.Event] = {}

    def post(self, ticket: Ticket) -> None:
        """From any thread: `ticket` has changed."""
        with self._lock:
            self._news[ticket] = None
            if self._under_way:
                return
            self._under_way = True
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._deliver)

    def open(self, ticket: Ticket) -> asyncio.Event:
        """Set at every change of `ticket`, until it is closed."""
        event = self._events[ticket] = asyncio.Event()
        return event

    def close(self, ticket: Ticket) -> None:
        self._events.pop(ticket, None)

    @property
    def listeners(self) -> int:
        """Tickets that somebody listens to."""
        return len(self._events)

    def _deliver(self) -> None:
        with self._lock:
            news, self._news = self._news, {}
            self._under_way = False
        for ticket in news:
            event = self._events.get(ticket)
            if event is not None:
                event.set()
