"""Clients that go away, or stay and do not read, leave nothing behind."""

import json
import socket
from contextlib import ExitStack, closing, suppress

import pytest

from harness.serve.limits import ServeLimits
from harness.serve.server import listen
from tests.harness.serve.live import serving

POLLS = 20_000  # each is a request of its own: many seconds on any machine
UNREAD_BYTES = 700_000  # 32,000 tokens in events
LONG = {"prompt": list(range(300, 400)), "max_tokens": 20_000}  # minutes, at some 10 ms a token
ROOMY = {"compute": "roofline", "context_length": 32768, "device_pages": 2100}


def _connected(host, port) -> socket.socket:
    """A connection with a small receive buffer."""
    with ExitStack() as opened:
        sock = opened.enter_context(closing(socket.socket()))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(60)
        sock.connect((host, port))
        opened.pop_all()
    return sock


def _request(live, body) -> socket.socket:
    """A connection with one request sent."""
    host, port = live.url.removeprefix("http://").split(":")
    text = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(text)}\r\n\r\n"
    sock = _connected(host, int(port))
    sock.sendall(head.encode() + text)
    return sock


def _until(live, reached):
    """Poll the server until `reached(metrics)`."""
    for _ in range(POLLS):
        if reached(metrics := live.metrics()):
            return metrics
    pytest.fail(f"never reached; at last {metrics}")


def _aborted(live, requests):
    """Wait for so many aborts. A count only grows, so none is missed, however slow the machine."""
    return _until(live, lambda m: m["sglang:num_aborted_requests_total"] == requests)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_takes_its_request_with_it(tmp_path, stream):
    with serving(tmp_path, **ROOMY) as live:
        with closing(_request(live, {**LONG, "stream": stream})) as sock:
            if stream:
                assert sock.recv(1000).startswith(b"HTTP/1.1 200")
            else:
                _until(live, lambda m: m["sglang:num_running_reqs"] == 1)
        metrics = _aborted(live, 1)
        assert metrics["sglang:num_requests_total"] == 0
        live.assert_whole()
        # What it had computed is cached and served to the next; there are 6 whole pages of it.
        live.complete(LONG["prompt"])
    assert not live.served[0].summary["violations"]


def test_streams_that_are_closed_half_way_leave_every_pool_whole(tmp_path):
    with serving(tmp_path, components=("full",), **ROOMY) as live:
        with ExitStack() as opened:
            for n in range(12):
                body = {"prompt": [300 + n] * (40 * n + 1), "max_tokens": 2000, "stream": True}
                sock = opened.enter_context(closing(_request(live, body)))
                assert sock.recv(2000 if n % 2 else 1)  # every one has begun, and has more to come
        _aborted(live, 12)
        live.assert_whole()
    assert not live.served[0].summary["violations"]


def test_a_client_that_never_reads_is_cut_off(tmp_path):
    if (held := _held_unread()) > UNREAD_BYTES // 2:
        pytest.skip(f"sockets of this system hold {held:,} bytes for a client that never reads")
    limits = ServeLimits(idle_s=2.0)
    # Steps that cost little: what fills the system's buffers are tokens.
    settings = {"context_length": 210_000, "device_pages": 55_000, "tp": 1, "components": ("full",)}
    with serving(tmp_path, limits=limits, **settings) as live, ExitStack() as opened:
        # An answer that takes many times longer than it takes to fill what the system holds.
        body = {"prompt": "a", "max_tokens": 200_000, "stream": True, "return_token_ids": True}
        socks = [opened.enter_context(closing(_request(live, body))) for _ in range(4)]
        _aborted(live, 4)
        for sock in socks:  # what the system had for it, and then the end, but not the answer's
            seen = _read_all(sock)
            assert seen.startswith(b"HTTP/1.1 200")
            assert b"[DONE]" not in seen
        live.assert_whole()


def _held_unread() -> int:
    """How many bytes this system takes from a server for a client that reads none."""
    with listen("127.0.0.1", 0) as server:
        server.listen()
        with _connected(*server.getsockname()) as client, server.accept()[0] as connection:
            connection.setblocking(False)
            held = 0
            with suppress(BlockingIOError):
                while held < UNREAD_BYTES:
                    held += connection.send(bytes(4096))
            assert client.fileno() >= 0
            return held


def _read_all(sock: socket.socket) -> bytes:
    parts = []
    with suppress(ConnectionResetError):
        while part := sock.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_an_answer_that_takes_too_long_is_given_up(tmp_path):
    limits = ServeLimits(request_s=0.3)
    with serving(tmp_path, limits=limits, **ROOMY) as live:
        reply = live.client.post("/v1/completions", json=LONG)
        assert reply.status_code == 504
        assert "0.3 s" in reply.json()["error"]["message"]
        _aborted(live, 1)
        live.assert_whole()


def test_what_is_open_when_the_server_stops_is_dropped_after_a_while(tmp_path):
    limits = ServeLimits(drain_s=0.1)
    with ExitStack() as opened, serving(tmp_path, limits=limits, **ROOMY) as live:
        sock = opened.enter_context(closing(_request(live, {**LONG, "stream": True})))
        sock.recv(1000)
    served = live.served[0]
    assert (served.summary["aborted"], served.summary["violations"]) == (1, 0)
