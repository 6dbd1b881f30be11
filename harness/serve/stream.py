"""An answer on its way to one client, as server-sent events or in one piece.

Invariant: when this ends, its ticket has ended or the engine was told to abort it; and it ends when
the client goes away, does not read for too long, or the answer takes too long.
"""

import asyncio

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from harness.engine.job import JobStatus
from harness.serve.connections import Connections
from harness.serve.engine import Engine
from harness.serve.errors import Refused, error_body, error_response
from harness.serve.limits import ServeLimits
from harness.serve.postbox import Postbox
from harness.serve.replies import Reply, event

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
REFUSALS = {JobStatus.REJECTED: 400, JobStatus.ABORTED: 503}


class Answer:
    """An ASGI response; the request's body has been read before."""

    def __init__(
        self,
        reply: Reply,
        engine: Engine,
        postbox: Postbox,
        connections: Connections,
        limits: ServeLimits,
    ) -> None:
        self._reply = reply
        self._ticket = reply.ticket
        self._engine = engine
        self._postbox = postbox
        self._connections = connections
        self._limits = limits
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._changed = self._postbox.open(self._ticket)
        self._engine.submit(self._ticket)
        leaving = asyncio.create_task(_gone(receive))
        write = self._stream if self._reply.asked.stream else self._in_one_piece
        writing = asyncio.create_task(write(scope, receive, send))
        try:
            await asyncio.wait(
                (leaving, writing),
                timeout=self._limits.request_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if writing.done():
                writing.result()
            elif not leaving.done():
                await self._too_late(writing, scope, receive, send)
        except TimeoutError:
            self._connections.cut(scope.get("client"))
            await asyncio.wait((leaving,), timeout=self._limits.idle_s)
        finally:
            leaving.cancel()
            writing.cancel()
            self._postbox.close(self._ticket)
            if self._ticket.ended is None:
                self._engine.abort(self._ticket)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        ticket, sent = self._ticket, 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            ended, generated = ticket.ended, ticket.generated
            if not self._started and (generated or ended is not None):
                if refused := self._refusal():
                    await error_response(refused)(scope, receive, send)
                    return
                self._started = True
                await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            if generated > sent:
                await self._send(send, self._reply.chunk(sent, generated), more=True)
                sent = generated
            if ended is not None:
                refused = self._refusal()
                last = event(error_body(refused)) if refused else self._reply.ending()
                await self._send(send, last, more=False)
                return

    async def _in_one_piece(self, scope: Scope, receive: Receive, send: Send) -> None:
        while self._ticket.ended is None:
            await self._changed.wait()
            self._changed.clear()
        refused = self._refusal()
        response = error_response(refused) if refused else JSONResponse(self._reply.whole())
        self._started = True
        async with asyncio.timeout(self._limits.idle_s):
            await response(scope, receive, send)

    async def _too_late(
        self, writing: "asyncio.Task[None]", scope: Scope, receive: Receive, send: Send
    ) -> None:
        """The answer took too long: say so if nothing has been said, else cut the connection."""
        writing.cancel()
        await asyncio.wait((writing,))
        if self._started:
            raise TimeoutError
        refused = Refused(504, f"no answer within {self._limits.request_s:g} s")
        await error_response(refused)(scope, receive, send)

    async def _send(self, send: Send, body: bytes, *, more: bool) -> None:
        """Waits until the client has read most of what was sent before. Raises `TimeoutError`."""
        async with asyncio.timeout(self._limits.idle_s):
            await send({"type": "http.response.body", "body": body, "more_body": more})

    def _refusal(self) -> Refused | None:
        """Why there is no answer, or no more of it."""
        ended = self._ticket.ended
        if ended is None or ended is JobStatus.COMPLETED:
            return None
        return Refused(REFUSALS[ended], self._ticket.error or "the request was aborted")


async def _gone(receive: Receive) -> None:
    """Until the client has closed its side."""
    while (await receive())["type"] != "http.disconnect":
        continue
