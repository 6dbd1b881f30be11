"""The connections of a server: how many there may be, and how one that idles is cut off."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

Peer = tuple[str, int]


class Connections:
    """Open connections by their peer. `protocol` makes one, for uvicorn's `http` setting."""

    def __init__(self, *, most: int, idle_s: float) -> None:
        self._most = most
        self._idle_s = idle_s
        self._open: dict[Peer | None, asyncio.Transport] = {}

    def __len__(self) -> int:
        return len(self._open)

    def cut(self, peer: Peer | None) -> None:
        """Drop the connection of `peer` with what has not been sent on it."""
        transport = self._open.get(peer)
        if transport is not None:
            transport.abort()

    def protocol(self, *given: Any, **named: Any) -> H11Protocol:
        return _Connection(self, *given, **named)

    def opened(self, connection: "_Connection") -> None:
        """Keeps it, unless there is no place for it."""
        if len(self._open) >= self._most:
            connection.transport.abort()
            return
        self._open[connection.client] = connection.transport
        asyncio.get_running_loop().call_later(self._idle_s, connection.expect_a_request)

    def closed(self, connection: "_Connection") -> None:
        if self._open.get(connection.client) is connection.transport:
            del self._open[connection.client]


class _Connection(H11Protocol):
    def __init__(self, connections: Connections, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._watched_by = connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watched_by.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watched_by.closed(self)
        super().connection_lost(exc)

    def expect_a_request(self) -> None:
        """Whoever has not even sent the head of a request by now is cut off."""
        if self.cycle is None and not self.transport.is_closing():
            self.transport.abort()
