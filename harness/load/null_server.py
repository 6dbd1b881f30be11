"""A server that does nothing but stream, and tells with each answer what it saw of the request.

It is what a client is measured against: whatever the client says beyond the server's own record is
the client's. The record comes in the last event's `usage`, on the monotonic clock of the machine.
"""

import asyncio
import json
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from socket import socket

MODEL = "null"
HEAD_END = b"\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
MOST_BYTES = 64 << 20  # of a request


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds from the request to the first chunk, and from one chunk to the next."""

    first_s: float = 0.005
    gap_s: float = 0.005


class NullServer(asyncio.Protocol):
    """One connection: a request at a time, a chunk a token, as many as it asks for."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(HEAD_END)
        if len(self._buffer) > MOST_BYTES:
            self._transport.abort()
        if end < 0:
            return
        start = end + len(HEAD_END)
        stop = start + _length(self._buffer[:end])
        if len(self._buffer) < stop:
            return
        received_ns = time.monotonic_ns()
        head, body, self._buffer = self._buffer[:end], self._buffer[start:stop], self._buffer[stop:]
        self._answer(head, body, received_ns)

    def _answer(self, head: bytes, body: bytes, received_ns: int) -> None:
        if head.startswith(b"POST /v1/completions "):
            asked = json.loads(body)
            self._stream(len(asked["prompt"]), int(asked["max_tokens"]), received_ns)
        elif head.startswith(b"GET /v1/models "):
            self._say(200, json.dumps({"data": [{"id": MODEL, "object": "model"}]}).encode())
        else:
            self._say(404, b"{}")

    def _say(self, status: int, body: bytes) -> None:
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n"
        self._transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)

    def _stream(self, prompt: int, chunks: int, received_ns: int) -> None:
        begin = self._loop.time()
        sent, first_ns = 0, -1

        def send() -> None:
            nonlocal sent, first_ns
            if not sent:
                first_ns = time.monotonic_ns()
                self._transport.write(STREAM + _chunk(_text(sent)))
            else:
                self._transport.write(_chunk(_text(sent)))
            sent += 1
            if sent < chunks:
                due = begin + self._pace.first_s + sent * self._pace.gap_s
                self._timer = self._loop.call_at(due, send)
            else:
                usage = _usage(prompt, chunks, received_ns, first_ns)
                self._transport.write(_chunk(usage + b"data: [DONE]\n\n") + b"0\r\n\r\n")

        self._timer = self._loop.call_at(begin + self._pace.first_s, send)


async def serve_null(sock: socket, pace: Pace, ready: Callable[[], None]) -> None:
    """Until SIGINT or SIGTERM."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError, RuntimeError):
            loop.add_signal_handler(number, stopping.set)
    server = await loop.create_server(lambda: NullServer(pace), sock=sock)
    ready()
    await stopping.wait()
    server.close()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _text(number: int) -> bytes:
    return (
        b'data: {"id":"null","object":"text_completion","model":"null","choices":[{"index":0,'
        b'"text":" t%d","finish_reason":null}]}\n\n' % (300 + number)
    )


def _usage(prompt: int, chunks: int, received_ns: int, first_ns: int) -> bytes:
    page = {
        "choices": [],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": chunks,
            "server_ttft_ns": first_ns - received_ns,
        },
    }
    return b"data: " + json.dumps(page).encode() + b"\n\n"
