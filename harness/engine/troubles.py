"""Storage that is slow, full, failing, torn or lying, when it is told to be.

Wraps the deterministic backend of simulated worlds. Which trouble befalls a question is the world's
choice: the tape's under a search, a seeded plan's of (time, kind) in a soak.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from cache.storage.contract import Fetched, Page, Presence, Status, Storage, Stored, Usage
from cache.storage.memory import MemoryStorage
from harness.explore.prng import SplitMix, derive


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
        # A small storage may have given up again what it took a moment ago.
        there = [page.key for page in pages[: stored.pages] if page.key in self.inner.blobs]
        if trouble is Trouble.TORN and there:
            self._tear(there[-1])
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


class Spell(NamedTuple):
    """From `start_s` on (seconds of the run's clock) storage is in this state."""

    start_s: float
    kind: Trouble


class TroublePlan:
    """Calm and trouble in turn, for ever: a seed's list of (time, kind).

    Invariant: what it says of a moment does not depend on what it was asked before."""

    CALM_S = (10, 40)
    TROUBLE_S = (1, 8)

    def __init__(self, seed: int) -> None:
        self._rng = SplitMix(derive(seed, "storage"))
        self.spells = [Spell(0.0, Trouble.NONE)]

    def at(self, now_s: float) -> Trouble:
        while self.spells[-1].start_s <= now_s:
            self._go_on()
        return self.spells[bisect_right(self.spells, now_s, key=lambda s: s.start_s) - 1].kind

    def _go_on(self) -> None:
        """The spell after the last: its kind, from when the last one ends."""
        last = self.spells[-1]
        low, high = self.CALM_S if last.kind is Trouble.NONE else self.TROUBLE_S
        end = last.start_s + low + self._rng.unit() * (high - low)
        calm = last.kind is not Trouble.NONE
        self.spells.append(Spell(end, Trouble.NONE if calm else self._rng.choice(TROUBLES[1:])))
