"""Whatever a client does wrong is a 4xx with OpenAI's error body, and harms nobody."""

import socket

import httpx
import pytest

from harness.serve.limits import ServeLimits
from tests.harness.serve.live import serving

LIMITS = ServeLimits(max_body_bytes=20_000, max_open_requests=2, idle_s=20.0, drain_s=20.0)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("runs"), limits=LIMITS) as live:
        yield live
        live.complete("after all that a good request is served")
    assert live.served[0].verdict.value == "pass"


BAD = {
    "no JSON": (b"{", 400, None),
    "deep JSON": (b"[" * 15_000, 400, None),
    "a list": (b"[]", 400, None),
    "no prompt": (b"{}", 400, "prompt"),
    "an empty prompt": (b'{"prompt": ""}', 400, "prompt"),
    "two prompts": (b'{"prompt": ["a", "b"]}', 400, "prompt"),
    "a prompt of halves": (b'{"prompt": [1.5]}', 400, "prompt"),
    "a prompt of booleans": (b'{"prompt": [true, false]}', 400, "prompt"),
    "a mixed prompt": (b'{"prompt": [1, "a"]}', 400, "prompt"),
    "a negative token": (b'{"prompt": [-1]}', 400, "prompt"),
    "a token too large": (b'{"prompt": [99999999999999999999]}', 400, "prompt"),
    "a prompt too long": (b'{"prompt": "' + b"a" * 1024 + b'"}', 400, "prompt"),
    "no room for the answer": (b'{"prompt": "a", "max_tokens": 1024}', 400, "max_tokens"),
    "an answer of nothing": (b'{"prompt": "a", "max_tokens": 0}', 400, "max_tokens"),
    "an answer of text": (b'{"prompt": "a", "max_tokens": "9"}', 400, "max_tokens"),
    "two answers": (b'{"prompt": "a", "n": 2}', 400, "n"),
    "a stop": (b'{"prompt": "a", "stop": ["b"]}', 400, "stop"),
    "too hot": (b'{"prompt": "a", "temperature": 3}', 400, "temperature"),
    "a stream of text": (b'{"prompt": "a", "stream": "yes"}', 400, "stream"),
    "options of text": (b'{"prompt": "a", "stream_options": "x"}', 400, "stream_options"),
    "a long salt": (b'{"prompt": "a", "cache_salt": "' + b"s" * 300 + b'"}', 400, "cache_salt"),
    "a wrong priority": (b'{"prompt": "a", "priority": 1e99}', 400, "priority"),
    "another model": (b'{"prompt": "a", "model": "x"}', 404, "model"),
    "a long body": (b" " * 20_001, 413, None),
}


@pytest.mark.parametrize(("body", "status", "param"), BAD.values(), ids=BAD.keys())
def test_a_bad_completion_is_refused(live, body, status, param):
    reply = live.client.post("/v1/completions", content=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (status, param)
    assert reply.json()["error"]["type"] == "invalid_request_error"
    assert reply.json()["error"]["message"]


@pytest.mark.parametrize(
    "messages",
    [None, [], "hi", [1], [{"content": "a"}], [{"role": "user"}],
     [{"role": "user", "content": [{"type": "image_url"}]}]],
)  # fmt: skip
def test_a_bad_chat_is_refused(live, messages):
    reply = live.client.post("/v1/chat/completions", json={"messages": messages})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "messages"


def test_a_body_that_is_longer_than_it_says_nothing_of_is_refused_as_it_comes(live):
    parts = (b" " * 4096 for _ in range(8))  # chunked: no length is announced
    assert live.client.post("/v1/completions", content=parts).status_code == 413


def test_an_unknown_path_and_a_wrong_method_are_told_apart(live):
    assert live.client.get("/v2/completions").status_code == 404
    reply = live.client.get("/v1/completions")
    assert reply.status_code == 405
    assert reply.json()["error"]["message"]


def test_requests_beyond_the_limit_are_told_to_come_again(tmp_path):
    """Two answers are under way, of 1,000 tokens at some 10 ms each."""
    body = {"prompt": "a", "max_tokens": 1000, "stream": True}
    with (
        serving(tmp_path, limits=LIMITS, compute="roofline") as live,
        live.client.stream("POST", "/v1/completions", json=body),
        live.client.stream("POST", "/v1/completions", json=body),
    ):
        reply = live.client.post("/v1/completions", json={"prompt": "a"})
        assert reply.status_code == 429
        assert reply.headers["retry-after"]
        assert reply.json()["error"]["type"] == "rate_limit_error"


def test_a_key_is_asked_for_but_not_by_health_and_metrics(tmp_path):
    with serving(tmp_path, api_key="secret") as live:
        for given in ({}, {"authorization": "Bearer wrong"}, {"authorization": "secrets"}):
            with httpx.Client(base_url=live.url, headers=given) as client:
                reply = client.post("/v1/completions", json={"prompt": "a"})
                assert reply.status_code == 401
                assert reply.json()["error"]["code"] == "invalid_api_key"
                assert client.get("/get_server_info").status_code == 401
                assert client.get("/health").status_code == 200
                assert client.get("/metrics").status_code == 200
        assert live.complete("a")["usage"]["completion_tokens"] == 4


def test_who_sends_no_head_or_half_a_body_is_cut_off(tmp_path):
    limits = ServeLimits(idle_s=3.0)  # for both at once
    with serving(tmp_path, limits=limits) as live:
        host, port = live.url.removeprefix("http://").split(":")
        address = host, int(port)
        with (
            socket.create_connection(address, timeout=60) as headless,
            socket.create_connection(address, timeout=60) as halved,
        ):
            halved.sendall(
                b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 50\r\n\r\n{"
            )
            headless.sendall(b"POST /v1/comp")
            assert b" 408 " in _read_all(halved).split(b"\r\n")[0]
            assert _read_all(headless) == b""


def _read_all(sock: socket.socket) -> bytes:
    parts = []
    try:
        while part := sock.recv(65536):
            parts.append(part)
            if b"\r\n\r\n" in part:
                break
    except ConnectionResetError:
        pass
    return b"".join(parts)


def test_connections_beyond_the_limit_are_closed_at_once(tmp_path):
    with serving(tmp_path, limits=ServeLimits(max_connections=1)) as live:
        live.client.get("/health")  # the one that is kept open
        host, port = live.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as sock:
            assert _read_all(sock) == b""
        assert live.client.get("/health").status_code == 200
