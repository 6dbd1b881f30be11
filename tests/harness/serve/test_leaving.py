"""Clients that go away, or stay and do not read, leave nothing behind."""

import json
import socket
from contextlib import suppress

import pytest

from harness.serve.limits import ServeLimits
from tests.harness.serve.live import serving

POLLS = 20_000  # each is a request of its own: many seconds on any machine
LONG = {"prompt": list(range(300, 400)), "max_tokens": 900}


def _request(live, body) -> socket.socket:
    """A connection with one request sent, and its small receive buffer."""
    host, port = live.url.removeprefix("http://").split(":")
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(60)
    sock.connect((host, int(port)))
    text = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(text)}\r\n\r\n"
    sock.sendall(head.encode() + text)
    return sock


def _until(live, reached):
    """Poll the server until `reached(metrics)`."""
    for _ in range(POLLS):
        if reached(metrics := live.metrics()):
            return metrics
    pytest.fail(f"never reached; at last {metrics}")


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_takes_its_request_with_it(tmp_path, stream):
    with serving(tmp_path, compute="roofline") as live:
        sock = _request(live, {**LONG, "stream": stream})
        if stream:
            assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        else:
            _until(live, lambda m: m["sglang:num_running_reqs"] == 1)
        sock.close()
        metrics = _until(live, lambda m: m["sglang:num_aborted_requests_total"])
        assert metrics["sglang:num_requests_total"] == 0
        live.assert_whole()
        # What it had computed is cached and served to the next; there are 6 whole pages of it.
        live.complete(LONG["prompt"])
    assert not live.served[0].summary["violations"]


def test_streams_that_are_closed_half_way_leave_every_pool_whole(tmp_path):
    with serving(tmp_path, compute="roofline", components=("full",), device_pages=800) as live:
        socks = [
            _request(live, {"prompt": [300 + n] * (40 * n + 1), "max_tokens": 500, "stream": True})
            for n in range(12)
        ]
        for sock in socks[::2]:
            sock.recv(2000)
        _until(live, lambda m: live.state()["open"] == 12)
        for sock in socks:
            sock.close()
        _until(live, lambda m: m["sglang:num_aborted_requests_total"] == 12)
        live.assert_whole()
    assert not live.served[0].summary["violations"]


def test_a_client_that_never_reads_is_cut_off(tmp_path):
    limits = ServeLimits(idle_s=0.5)
    settings = {"context_length": 32768, "device_pages": 2100}
    with serving(tmp_path, limits=limits, **settings) as live:
        body = {"prompt": "a", "max_tokens": 32000, "stream": True, "return_token_ids": True}
        socks = [_request(live, body) for _ in range(4)]
        _until(live, lambda m: live.state()["open"] == 0)
        for sock in socks:  # what the system had for it, and then the end, but not the answer's
            seen = _read_all(sock)
            assert seen.startswith(b"HTTP/1.1 200")
            assert b"[DONE]" not in seen
            sock.close()
        live.assert_whole()


def _read_all(sock: socket.socket) -> bytes:
    parts = []
    with suppress(ConnectionResetError):
        while part := sock.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_an_answer_that_takes_too_long_is_given_up(tmp_path):
    limits = ServeLimits(request_s=0.3)
    with serving(tmp_path, limits=limits, compute="roofline") as live:
        reply = live.client.post("/v1/completions", json=LONG)
        assert reply.status_code == 504
        assert "0.3 s" in reply.json()["error"]["message"]
        _until(live, lambda m: m["sglang:num_aborted_requests_total"] == 1)
        live.assert_whole()


def test_what_is_open_when_the_server_stops_is_dropped_after_a_while(tmp_path):
    limits = ServeLimits(drain_s=0.1)
    with serving(tmp_path, limits=limits, compute="roofline") as live:
        sock = _request(live, {**LONG, "stream": True})
        sock.recv(1000)
    sock.close()
    served = live.served[0]
    assert (served.summary["aborted"], served.summary["violations"]) == (1, 0)
