"""Storage that is slow, full, failing, torn or lying, when it is told to be.

Wraps the deterministic backend of simulated worlds. Which trouble befalls a question is the world's
choice: the tape's under a search, a seeded plan's of (time, kind) in a soak.
"""

from collections.abc import Callable, Sequence
from enum import Enum

from cache.storage.contract import Fetched, Page, Presence, Status, Storage, Stored, Usage
from cache.storage.memory import MemoryStorage


class Trouble(Enum):
    NONE = "none"
    FAILING = "failing"  # nothing is done, and it says so
    SLOW = "slow"  # too late an answer is none; what was put is there all the same
    FULL = "full"  # half of what is put finds room
    TORN = "torn"  # a page of those concerned is damaged
    LYING = "lying"  # it has what it has not, keeps what it does not, gives one page for another


TROUBLES = tuple(Trouble)
_STATUS = {Trouble.FAILING: Status.FAILED, Trouble.SLOW: Status.SLOW}


class TroubledStorage(Storage):
    """`trouble()` is asked once for each question to storage."""

    def __init__(self, inner: MemoryStorage, trouble: Callable[[], Trouble]) -> None:
        self.inner = inner
        self.trouble = trouble

    def has(self, keys: Sequence[bytes]) -> Presence:
        trouble = self.trouble()
        if trouble in _STATUS:
            return Presence((False,) * len(keys), _STATUS[trouble])
        if trouble is Trouble.LYING:
            return Presence((True,) * len(keys), Status.OK)
        return self.inner.has(keys)

    def get(self, keys: Sequence[bytes]) -> Fetched:
        trouble = self.trouble()
        if trouble in _STATUS:
            return Fetched([], _STATUS[trouble])
        blobs = self.inner.blobs
        there = [key for key in keys if key in blobs]
        if trouble is Trouble.TORN and there:
            self._tear(there[-1])
        if trouble is Trouble.LYING and len(there) > 1:
            blobs[there[-1]] = blobs[there[0]]
        return self.inner.get(keys)

    def put(self, pages: Sequence[Page]) -> Stored:
        trouble = self.trouble()
        match trouble:
            case Trouble.FAILING:
                return Stored(0, Status.FAILED)
            case Trouble.SLOW:
                self.inner.put(pages)
                return Stored(0, Status.SLOW)
            case Trouble.FULL:
                half = self.inner.put(pages[: len(pages) // 2])
                return half if half.status is not Status.OK else Stored(half.pages, Status.FULL)
            case Trouble.LYING:
                return Stored(len(pages), Status.OK)
        stored = self.inner.put(pages)
        if trouble is Trouble.TORN and stored.pages:
            self._tear(pages[stored.pages - 1].key)
        return stored

    def remove(self, keys: Sequence[bytes]) -> int:
        return self.inner.remove(keys)

    def usage(self) -> Usage:
        return self.inner.usage()

    def close(self) -> None:
        self.inner.close()

    def _tear(self, key: bytes) -> None:
        """The last byte is another one; the size stays."""
        blob = self.inner.blobs[key]
        self.inner.blobs[key] = blob[:-1] + bytes([blob[-1] ^ 0xFF])
