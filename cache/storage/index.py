"""What a storage holds: names, heads, sizes, and who goes first.

Invariant: a page's head is in the index or is ROOT; the victims are the pages that nothing hangs
below, least recently used first.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from cache.storage.contract import ROOT

SPARE = 8  # stale entries in the heap; few, so that small storages come to trim it


class Entry(NamedTuple):
    key: bytes
    head: bytes
    size_bytes: int


class PageIndex:
    def __init__(self) -> None:
        self._entries: dict[bytes, Entry] = {}
        self._below: dict[bytes, dict[bytes, None]] = {}
        self._used: dict[bytes, int] = {}
        self._heap: list[tuple[int, bytes]] = []
        self._clock = 0
        self.used_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: bytes) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Entry]:
        """Heads before what hangs below them."""
        stack = [ROOT]
        while stack:
            for key in self._below.get(stack.pop(), ()):
                yield self._entries[key]
                stack.append(key)

    def get(self, key: bytes) -> Entry | None:
        return self._entries.get(key)

    def used_at(self, key: bytes) -> int:
        """The logical time of the last use of a page that is there."""
        return self._used[key]

    def has_head(self, entry: Entry) -> bool:
        """Whether the page could be added: its head is there."""
        return entry.head == ROOT or entry.head in self._entries

    def add(self, entry: Entry) -> None:
        """A new page whose head is there; a use of it."""
        assert entry.key not in self._entries
        assert entry.key != ROOT
        assert self.has_head(entry), "no tail before its head"
        self._entries[entry.key] = entry
        self._below.setdefault(entry.head, {})[entry.key] = None
        self.used_bytes += entry.size_bytes
        self.touch(entry.key)

    def touch(self, key: bytes) -> None:
        """A use; a page that is gone is passed over."""
        if key not in self._entries:
            return
        self._clock += 1
        self._used[key] = self._clock
        self._offer(key)

    def subtree(self, key: bytes) -> list[Entry]:
        """The page and all that is below it, tails before heads; nothing if it is not there."""
        if key not in self._entries:
            return []
        found, stack = [], [key]
        while stack:
            here = stack.pop()
            found.append(self._entries[here])
            stack += self._below.get(here, ())
        found.reverse()
        return found

    def drop(self, key: bytes) -> None:
        """A page below which there is nothing."""
        assert not self._below.get(key), "no head before its tail"
        entry = self._entries.pop(key)
        del self._used[key]
        self._below.pop(key, None)
        siblings = self._below[entry.head]
        del siblings[key]
        self.used_bytes -= entry.size_bytes
        if not siblings:
            del self._below[entry.head]
            if entry.head in self._entries:
                self._offer(entry.head)

    def victim(self, spared: bytes) -> Entry | None:
        """The least recently used page that nothing hangs below, `spared` left out."""
        put_back = []
        found = None
        while self._heap:
            used, key = self._heap[0]
            if self._used.get(key) != used or key in self._below:
                heappop(self._heap)
            elif key == spared:
                put_back.append(heappop(self._heap))
            else:
                found = self._entries[key]
                break
        for item in put_back:
            heappush(self._heap, item)
        return found

    def _offer(self, key: bytes) -> None:
        heappush(self._heap, (self._used[key], key))
        if len(self._heap) > SPARE + 2 * len(self._used):
            self._heap = [(u, k) for u, k in self._heap if self._used.get(k) == u]
            heapify(self._heap)
