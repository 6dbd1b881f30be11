"""Storage in this process's memory: nothing outlives it, everything repeats exactly.

The backend of simulated worlds, and the contract's shortest implementation.
"""

from collections.abc import Sequence

from cache.storage.contract import Fetched, Page, Presence, Status, Storage, Stored, Usage
from cache.storage.frame import seal, unseal
from cache.storage.index import Entry, PageIndex


class MemoryStorage(Storage):
    def __init__(self, identity: bytes, capacity_bytes: int) -> None:
        assert capacity_bytes >= 0
        self._identity = identity
        self._capacity_bytes = capacity_bytes
        self.blobs: dict[bytes, bytes] = {}  # header and payload, for whoever wants to damage them
        self.index = PageIndex()

    def has(self, keys: Sequence[bytes]) -> Presence:
        return Presence(tuple(key in self.blobs for key in keys), Status.OK)

    def get(self, keys: Sequence[bytes]) -> Fetched:
        payloads: list[memoryview] = []
        for key in keys:
            blob = self.blobs.get(key)
            if blob is None:
                return Fetched(payloads, Status.ABSENT)
            payload = unseal(self._identity, key, blob)
            if payload is None:
                self.remove([key])
                return Fetched(payloads, Status.TORN)
            self.index.touch(key)
            payloads.append(payload)
        return Fetched(payloads, Status.OK)

    def put(self, pages: Sequence[Page]) -> Stored:
        for done, page in enumerate(pages):
            status = self._keep(page)
            if status is not Status.OK:
                return Stored(done, status)
        return Stored(len(pages), Status.OK)

    def remove(self, keys: Sequence[bytes]) -> int:
        gone = 0
        for key in keys:
            for entry in self.index.subtree(key):
                self._drop(entry)
                gone += 1
        return gone

    def usage(self) -> Usage:
        return Usage(len(self.index), self.index.used_bytes, self._capacity_bytes)

    def close(self) -> None:
        """Everything is forgotten."""
        self.blobs.clear()
        self.index = PageIndex()

    def _keep(self, page: Page) -> Status:
        if page.key in self.index:
            self.index.touch(page.key)
            return Status.OK
        blob = seal(self._identity, page) + page.payload
        entry = Entry(page.key, page.head, len(blob))
        if not self.index.has_head(entry):
            return Status.ABSENT
        while self.index.used_bytes + entry.size_bytes > self._capacity_bytes:
            victim = self.index.victim(page.head)
            if victim is None:
                return Status.FULL
            self._drop(victim)
        self.blobs[page.key] = blob
        self.index.add(entry)
        return Status.OK

    def _drop(self, entry: Entry) -> None:
        del self.blobs[entry.key]
        self.index.drop(entry.key)
