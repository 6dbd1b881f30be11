"""Storage in a Redis or Valkey server, shared by whoever can reach it.

    kvt:{IDENTITY}:p:KEY   a page: header and payload     kvt:{IDENTITY}:heads   key -> head
    kvt:{IDENTITY}:b:KEY   what hangs below a page        kvt:{IDENTITY}:leaves  key -> last use

Each change is one script, so it happens as a whole or not at all, however many clients there are.
The capacity is kept here, leaf by leaf; run the server with `maxmemory-policy noeviction`, for its
own eviction knows no heads. What survives the server's end is the server's matter (appendonly).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import redis

from cache.storage.contract import ROOT, Fetched, Page, Presence, Status, Storage, Stored, Usage
from cache.storage.frame import seal, unseal

T = TypeVar("T")

# Of a leaf: out of every list; its head is a leaf again if nothing else hangs below it.
_DROP = """
local function drop(base, key)
  local size = redis.call('STRLEN', base .. 'p:' .. key)
  local head = redis.call('HGET', base .. 'heads', key)
  redis.call('DEL', base .. 'p:' .. key)
  redis.call('HDEL', base .. 'heads', key)
  redis.call('ZREM', base .. 'leaves', key)
  redis.call('INCRBY', base .. 'used', -size)
  local uses = redis.call('HGET', base .. 'uses', key) or '0'
  redis.call('HDEL', base .. 'uses', key)
  if head and redis.call('SREM', base .. 'b:' .. head, key) == 1
      and redis.call('SCARD', base .. 'b:' .. head) == 0
      and redis.call('HEXISTS', base .. 'heads', head) == 1 then
    redis.call('ZADD', base .. 'leaves', redis.call('HGET', base .. 'uses', head), head)
  end
end
local function touch(base, key)
  local now = redis.call('INCR', base .. 'clock')
  redis.call('HSET', base .. 'uses', key, now)
  if redis.call('SCARD', base .. 'b:' .. key) == 0 then
    redis.call('ZADD', base .. 'leaves', now, key)
  end
end
"""
_PUT = (
    _DROP
    + """
local base, key, head, data, capacity, root = KEYS[1], ARGV[1], ARGV[2], ARGV[3],
  tonumber(ARGV[4]), ARGV[5]
redis.call('INCRBY', base .. 'clock', 0) -- a server without memory refuses here, nothing done yet
if redis.call('EXISTS', base .. 'p:' .. key) == 1 then touch(base, key) return 'ok' end
if head ~= root and redis.call('EXISTS', base .. 'p:' .. head) == 0 then return 'absent' end
local spared = redis.call('ZREM', base .. 'leaves', head)
while tonumber(redis.call('GET', base .. 'used') or '0') + #data > capacity do
  local victim = redis.call('ZPOPMIN', base .. 'leaves')[1]
  if not victim then
    if spared == 1 then touch(base, head) end
    return 'full'
  end
  drop(base, victim)
end
redis.call('SET', base .. 'p:' .. key, data)
redis.call('HSET', base .. 'heads', key, head)
redis.call('SADD', base .. 'b:' .. head, key)
redis.call('INCRBY', base .. 'used', #data)
touch(base, key)
return 'ok'
"""
)
_TOUCH = (
    _DROP
    + """
for _, key in ipairs(ARGV) do
  if redis.call('HEXISTS', KEYS[1] .. 'heads', key) == 1 then touch(KEYS[1], key) end
end
"""
)
_REMOVE = (
    _DROP
    + """
local gone = 0
local function prune(key)
  for _, below in ipairs(redis.call('SMEMBERS', KEYS[1] .. 'b:' .. key)) do prune(below) end
  if redis.call('HEXISTS', KEYS[1] .. 'heads', key) == 1 then drop(KEYS[1], key) gone = gone + 1 end
end
for _, key in ipairs(ARGV) do prune(key) end
return gone
"""
)


class RedisStorage(Storage):
    """Connects when first used. `timeout_s` bounds every wait; what takes longer is SLOW."""

    def __init__(
        self, url: str, identity: bytes, capacity_bytes: int, *, timeout_s: float = 1.0
    ) -> None:
        """Raises `ValueError` when the URL is none."""
        self._identity = identity
        self._capacity_bytes = capacity_bytes
        self._client: Any = redis.Redis.from_url(
            url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s
        )
        self._base = b"kvt:{" + identity.hex().encode() + b"}:"
        scripts = (_PUT, _TOUCH, _REMOVE)
        self._put, self._touch, self._remove = map(self._client.register_script, scripts)

    def has(self, keys: Sequence[bytes]) -> Presence:
        def ask() -> list[bool]:
            pipe = self._client.pipeline(transaction=False)
            for key in keys:
                pipe.exists(self._name(key))
            return [bool(there) for there in pipe.execute()]

        there, status = _try(ask)
        return Presence(tuple(there or (False,) * len(keys)), status)

    def get(self, keys: Sequence[bytes]) -> Fetched:
        payloads: list[memoryview] = []
        for key in keys:
            blob, status = _try(partial(self._client.get, self._name(key)))
            if status is Status.OK and blob is None:
                status = Status.ABSENT
            elif blob is not None:
                payload = unseal(self._identity, key, blob)
                if payload is not None:
                    payloads.append(payload)
                    continue
                self.remove([key])
                status = Status.TORN
            self._use(keys[: len(payloads)])
            return Fetched(payloads, status)
        self._use(keys)
        return Fetched(payloads, Status.OK)

    def put(self, pages: Sequence[Page]) -> Stored:
        for done, page in enumerate(pages):
            data = seal(self._identity, page) + page.payload
            given: list[Any] = [page.key, page.head, data, self._capacity_bytes, ROOT]
            answer, status = _try(partial(self._put, keys=[self._base], args=given))
            if answer is not None:
                status = Status(answer.decode())
            if status is not Status.OK:
                return Stored(done, status)
        return Stored(len(pages), Status.OK)

    def remove(self, keys: Sequence[bytes]) -> int:
        gone, _ = _try(lambda: self._remove(keys=[self._base], args=list(keys)))
        return int(gone or 0)

    def usage(self) -> Usage:
        """Zeros while the server does not answer."""
        pages, _ = _try(lambda: self._client.hlen(self._base + b"heads"))
        used, _ = _try(lambda: self._client.get(self._base + b"used"))
        return Usage(int(pages or 0), int(used or 0), self._capacity_bytes)

    def close(self) -> None:
        self._client.close()

    def _use(self, keys: Sequence[bytes]) -> None:
        if keys:
            _try(lambda: self._touch(keys=[self._base], args=list(keys)))

    def _name(self, key: bytes) -> bytes:
        return self._base + b"p:" + key


def _try(ask: Callable[[], T]) -> tuple[T | None, Status]:
    """The answer, or why there is none."""
    try:
        return ask(), Status.OK
    except redis.TimeoutError:
        return None, Status.SLOW
    except redis.exceptions.OutOfMemoryError:
        return None, Status.FULL
    except redis.RedisError:
        return None, Status.FAILED
