"""Answers are the same however the network cuts them, and what is no answer is an error."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.load.connection import BadAnswer, Connection

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
CHUNKS = b"5\r\nhello\r\n1;ext=a\r\n,\r\nA\r\n 0123\r\n789\r\n"
LAST = b"0\r\n\r\n"
TRAILED = b"0\r\nchecksum: abc\r\n\r\n"


class Scripted:
    """A socket from which so many parts come, one a read."""

    def __init__(self, parts):
        self.parts = [part for part in parts if part]
        self.sent = b""
        self.closed = False

    def sendall(self, data):
        self.sent += data

    def recv(self, most):
        return self.parts.pop(0) if self.parts else b""

    def close(self):
        self.closed = True


def _connection(*parts):
    connection = Connection("http://h:7/v1", headers={"x": "y"}, timeout_s=1)
    connection._sock = sock = Scripted(parts)
    return connection, sock


def _cut(data, cuts):
    at = [0, *sorted(cuts), len(data)]
    return [data[a:b] for a, b in pairwise(at)]


WHOLE = [
    (CHUNKED + CHUNKS + LAST, b"hello, 0123\r\n789"),
    (CHUNKED + CHUNKS + TRAILED, b"hello, 0123\r\n789"),
    (CHUNKED + LAST, b""),
    (HEAD + b"content-length: 5\r\n\r\nhello", b"hello"),
    (HEAD + b"content-length: 0\r\n\r\n", b""),
]


@given(st.sampled_from(WHOLE), st.lists(st.integers(0, len(CHUNKED + CHUNKS)), max_size=8))
def test_any_cut_gives_the_same_body_and_the_line_stays(answer, cuts):
    data, body = answer
    connection, sock = _connection(*_cut(data, [min(cut, len(data)) for cut in cuts]))
    connection.ask("GET", "/a")
    assert connection.status() == 200
    assert connection.read_all() == body
    assert (connection.read(), sock.parts, sock.closed) == (b"", [], False)


def test_what_a_read_brings_is_told_at_once():
    connection, _ = _connection(CHUNKED, b"3\r\nabc\r\n", b"3\r\nde", b"f\r\n", LAST)
    connection.ask("GET", "/a")
    connection.status()
    assert [connection.read() for _ in range(4)] == [b"abc", b"de", b"f", b""]


def test_a_body_may_last_until_the_server_closes():
    connection, sock = _connection(b"HTTP/1.0 200 OK\r\n\r\nab", b"cd")
    connection.ask("GET", "/a")
    assert connection.status() == 200
    assert connection.read_all() == b"abcd"
    assert sock.closed


def test_a_server_that_will_close_is_taken_at_its_word():
    connection, sock = _connection(HEAD + b"Connection: close\r\ncontent-length: 1\r\n\r\na")
    connection.ask("GET", "/a")
    connection.status()
    assert (connection.read_all(), sock.closed) == (b"a", True)


def test_a_request_is_whole_and_names_its_length():
    connection, sock = _connection()
    connection.ask("POST", "/v1/x", "{}")
    assert sock.sent == (
        b"POST /v1/x HTTP/1.1\r\nhost: h:7\r\naccept-encoding: identity\r\nx: y\r\n"
        b"content-length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000,
        CHUNKED + b"5\r\nhel",
        CHUNKED + CHUNKS,
        CHUNKED + b"zz\r\n",
        HEAD + b"content-length: 9\r\n\r\nhello",
    ],
)
def test_what_is_no_answer_or_half_of_one_is_an_error(data):
    connection, _ = _connection(*[data[at : at + 1000] for at in range(0, len(data), 1000)])
    connection.ask("GET", "/a")
    with pytest.raises(BadAnswer):  # noqa: PT012  # the head may be good, and the body not
        connection.status()
        connection.read_all()
