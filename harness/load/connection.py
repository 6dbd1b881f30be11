"""HTTP/1.1 as far as a load needs it: one request at a time, its answer as the bytes come.

A stream of small chunks is what costs a client most, so nothing is buffered twice and nothing waits
for a line: `read` returns what one read of the socket brought.
"""

import http.client
import socket
import ssl
from urllib.parse import urlsplit

READ_BYTES = 65536
HEAD_BYTES_MAX = 65536
HEAD_END = b"\r\n\r\n"


class BadAnswer(http.client.HTTPException):
    """What came is no HTTP, or ended too soon."""


class Connection:
    """To one server; opened when it is needed. Raises `OSError` and `BadAnswer`, and is to be
    closed then."""

    def __init__(self, base_url: str, *, headers: dict[str, str], timeout_s: float) -> None:
        parts = urlsplit(base_url)
        self._tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._tls else 80)
        self._timeout_s = timeout_s
        named = f"[{self._host}]" if ":" in self._host else self._host
        head = {"host": f"{named}:{self._port}", "accept-encoding": "identity", **headers}
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        self._sock: socket.socket | None = None
        self._rest = b""  # has come and was not taken yet
        self._left = 0  # bytes of the body, or of its present chunk
        self._chunked = self._until_close = self._ended = False
        self._keep = True
        self._opened = False  # a chunk has been, so that a line end comes before the next size

    def ask(self, method: str, path: str, body: str = "") -> None:
        """Send a request; when this returns, the system has its last byte."""
        data = body.encode()
        length = f"content-length: {len(data)}\r\n" if method == "POST" else ""
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}{length}\r\n".encode("latin-1")
        self._forget()
        if self._sock is None:
            self._sock = self._open()
        self._sock.sendall(head + data)

    def status(self) -> int:
        """Wait for the head of the answer."""
        while (end := self._rest.find(HEAD_END)) < 0:
            if len(self._rest) > HEAD_BYTES_MAX:
                raise BadAnswer("a head without end")
            self._rest += self._receive() or self._cut("no answer")
        head, self._rest = self._rest[:end], self._rest[end + len(HEAD_END) :]
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in map(_parted, lines)}
        self._keep = first.startswith("HTTP/1.1") and fields.get("connection") != "close"
        self._chunked = "chunked" in fields.get("transfer-encoding", "").lower()
        length = fields.get("content-length", "")
        if not self._chunked:
            self._until_close = not length.isdecimal()
            self._left = int(length) if length.isdecimal() else 0
            self._ended = not self._until_close and not self._left
        word = first.split(" ")
        if not first.startswith("HTTP/1.") or len(word) < 2 or not word[1].isdecimal():
            raise BadAnswer(f"no answer in HTTP: {first[:60]}")
        return int(word[1])

    def read(self) -> bytes:
        """What has come of the body, as soon as there is any; b"" after its end."""
        while not self._ended:
            part = self._take_chunks() if self._chunked else self._take_plain()
            if part:
                return part
            if self._ended:
                break
            received = self._receive()
            if not received and not self._until_close:
                self._cut("the body ended too soon")
            self._ended = not received
            self._rest += received
        if not self._keep:
            self.close()
        return b""

    def read_all(self, limit: int = 1 << 26) -> bytes:
        """The rest of the body."""
        parts: list[bytes] = []
        while part := self.read():
            parts.append(part)
            limit -= len(part)
            if limit < 0:
                raise BadAnswer("a body that is too long")
        return b"".join(parts)

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _forget(self) -> None:
        """Nothing is known of the next answer."""
        self._rest, self._left, self._keep = b"", 0, True
        self._chunked = self._until_close = self._ended = self._opened = False

    def _open(self) -> socket.socket:
        sock = socket.create_connection((self._host, self._port), self._timeout_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self._tls:
            return sock
        try:
            return ssl.create_default_context().wrap_socket(sock, server_hostname=self._host)
        except BaseException:
            sock.close()
            raise

    def _receive(self) -> bytes:
        assert self._sock is not None, "ask first"
        return self._sock.recv(READ_BYTES)

    def _cut(self, why: str) -> bytes:
        raise BadAnswer(why)

    def _take_plain(self) -> bytes:
        part = self._rest if self._until_close else self._rest[: self._left]
        self._rest = self._rest[len(part) :]
        if not self._until_close:
            self._left -= len(part)
            self._ended = not self._left
        return part

    def _take_chunks(self) -> bytes:
        """All data of all chunks, as far as they have come."""
        rest, at, parts = self._rest, 0, list[bytes]()
        while at < len(rest):
            if self._left:
                part = rest[at : at + self._left]
                at += len(part)
                self._left -= len(part)
                parts.append(part)
                continue
            begin = at + 2 if self._opened else at
            end = rest.find(b"\r\n", begin)
            if end < 0:
                break
            size = _size(rest[begin:end])
            if size == 0:
                bare = rest[end + 2 : end + 4] == b"\r\n"  # no field follows
                if bare or rest.find(HEAD_END, end) >= 0:
                    self._ended, at = True, len(rest)
                break
            self._left, self._opened, at = size, True, end + 2
        self._rest = rest[at:]
        return b"".join(parts) if len(parts) != 1 else parts[0]


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def _size(line: bytes) -> int:
    try:
        return int(line.split(b";")[0], 16)
    except ValueError:
        raise BadAnswer(f"no size of a chunk: {line[:20]!r}") from None
