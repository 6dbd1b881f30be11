"""The Redis backend against a real server of its own; skipped where none is installed."""

import shutil
import signal
import socket
import subprocess
import time

import pytest
import redis

from cache.storage.contract import Status
from cache.storage.redis import RedisStorage
from tests.cache.storage.contract_suite import (
    IDENTITY,
    SIZE,
    ContractSuite,
    chain,
    key_of,
    page,
    there,
)

SERVER = shutil.which("redis-server") or shutil.which("valkey-server")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server on a socket file, so that no port is taken; (process, url)."""
    if SERVER is None:
        pytest.skip("no Redis or Valkey here: apt-get install redis-server")
    folder = tmp_path_factory.mktemp("redis")
    where = folder / "s"
    words = [SERVER, "--port", "0", "--unixsocket", str(where), "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(str(where), process)
        yield process, f"unix://{where}"
    finally:
        process.kill()
        process.wait()


def _wait_for(where, process):
    """Ask until it answers; a server that ended will never."""
    client = redis.Redis(unix_socket_path=where)
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        assert process.poll() is None, "the server did not start"
        try:
            client.ping()
            break
        except redis.ConnectionError:
            continue
    else:
        raise AssertionError("the server does not answer")
    client.close()


@pytest.fixture
def client(server):
    """To look into the server and to clear it."""
    _, url = server
    client = redis.Redis.from_url(url)
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def open_storage(server, client):
    opened = []

    def open_one(pages=1000, **settings):
        opened.append(RedisStorage(server[1], IDENTITY, pages * SIZE, **settings))
        return opened[-1]

    yield open_one
    for storage in opened:
        storage.close()


class TestRedis(ContractSuite):
    @pytest.fixture
    def make(self, open_storage):
        return open_storage


def test_a_flipped_bit_is_a_miss_and_the_page_can_be_put_again(client, open_storage):
    storage = open_storage()
    storage.put(chain(1, 2, 3))
    name = b"kvt:{" + IDENTITY.hex().encode() + b"}:p:" + key_of(2)
    client.setrange(name, SIZE - 1, b"\xff")
    assert storage.get([key_of(1), key_of(2)]).status is Status.TORN
    assert there(storage, 1, 2, 3) == [1]
    assert storage.put(chain(1, 2, 3)) == (3, Status.OK)


def test_two_clients_share_pages_and_capacity(open_storage):
    one, two = open_storage(4), open_storage(4)
    for name in range(1, 20):
        (one if name % 2 else two).put([page(name)])
    assert one.usage().pages == two.usage().pages == 4
    assert there(one, 16, 17, 18, 19) == [16, 17, 18, 19]


def test_a_page_that_the_server_lost_is_a_miss(client, open_storage):
    storage = open_storage()
    storage.put(chain(1, 2))
    client.delete(b"kvt:{" + IDENTITY.hex().encode() + b"}:p:" + key_of(2))
    assert there(storage, 1, 2) == [1]


def test_a_server_without_memory_is_full_and_keeps_what_it_has(client, open_storage):
    storage = open_storage()
    storage.put(chain(1, 2))
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    try:
        assert storage.put([page(3, 2)]) == (0, Status.FULL)
        assert there(storage, 1, 2) == [1, 2]
    finally:
        client.config_set("maxmemory", 0)
    assert storage.put([page(3, 2)]) == (1, Status.OK)


def test_a_server_that_does_not_answer_in_time_is_slow(server, open_storage):
    process, _ = server
    storage = open_storage(timeout_s=0.05)
    storage.put([page(1)])
    process.send_signal(signal.SIGSTOP)
    try:
        assert storage.get([key_of(1)]) == ([], Status.SLOW)
        assert storage.put([page(2)]) == (0, Status.SLOW)
        assert storage.has([key_of(1)]) == ((False,), Status.SLOW)
    finally:
        process.send_signal(signal.SIGCONT)
    assert there(open_storage(), 1) == [1]


def test_no_server_is_a_failure_and_no_crash():
    with socket.socket() as taken:  # bound and not listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        url = f"redis://127.0.0.1:{taken.getsockname()[1]}"
        storage = RedisStorage(url, IDENTITY, 10 * SIZE)
        assert storage.get([key_of(1)]) == ([], Status.FAILED)
        assert storage.put([page(1)]) == (0, Status.FAILED)
        assert storage.has([key_of(1)]) == ((False,), Status.FAILED)
        assert storage.remove([key_of(1)]) == 0
        assert storage.usage().pages == 0
        storage.close()


def test_a_wrong_url_is_told_at_once():
    with pytest.raises(ValueError, match="scheme"):
        RedisStorage("nonsense", IDENTITY, 10 * SIZE)
