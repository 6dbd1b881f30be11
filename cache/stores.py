"""What lies behind slots. Here: the fingerprint of the page that was last written.

A fingerprint says which prefix a page's KV belongs to, so reading a slot tells whether it still
holds what its owner believes. Tensors, where a run has them, stand behind the same interface.
"""

from collections.abc import Callable
from typing import Protocol, Self

from cache.config import Component, Tier
from cache.keys import UNWRITTEN, gather

NO_BODY = memoryview(b"")


class Store(Protocol):
    """Page contents of one component on one tier."""

    def write(self, slots: list[int], prints: list[int]) -> None: ...

    def read(self, slots: list[int]) -> list[int]: ...

    def forget(self, slots: list[int]) -> None: ...

    def take(self, other: Self, source: list[int], target: list[int]) -> None:
        """Copy pages of `other`, of the same component, into slots of this store."""
        ...

    # -- to storage and back -------------------------------------------------------------------

    @property
    def body_bytes(self) -> int:
        """What there is to a page beside its fingerprint; 0 where that is all."""
        ...

    def bodies(self, slots: list[int]) -> list[memoryview]:
        """Copies of what lies in `slots`, `body_bytes` each, alike for every layout."""
        ...

    def restore(self, slot: int, print_: int, body: memoryview) -> None:
        """A page comes back from storage. Where it has a body that is all that is taken: what the
        slot then reads as is what rides in the body. Of a body of another length, which is none
        of this store's, as much is taken as there is room for."""
        ...


class FingerprintStore:
    """One fingerprint for each slot; UNWRITTEN after allocation and after release."""

    def __init__(self, capacity: int) -> None:
        self._prints = [UNWRITTEN] * capacity

    def write(self, slots: list[int], prints: list[int]) -> None:
        table = self._prints
        for slot, value in zip(slots, prints, strict=True):
            table[slot] = value

    def read(self, slots: list[int]) -> list[int]:
        return gather(self._prints, slots)

    def forget(self, slots: list[int]) -> None:
        table = self._prints
        for slot in slots:
            table[slot] = UNWRITTEN

    def take(self, other: "FingerprintStore", source: list[int], target: list[int]) -> None:
        self.write(target, other.read(source))

    body_bytes = 0

    def bodies(self, slots: list[int]) -> list[memoryview]:
        return [NO_BODY] * len(slots)

    def restore(self, slot: int, print_: int, body: memoryview) -> None:
        self._prints[slot] = print_


StoreMaker = Callable[[Tier, Component, int], Store]  # for so many slots of a place


def fingerprints(tier: Tier, component: Component, capacity: int) -> Store:
    """The default: nothing stands behind a slot but its page's fingerprint."""
    return FingerprintStore(capacity)
