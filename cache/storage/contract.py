"""What a storage backend promises: pages under names, each below the page that comes before it.

A backend is one file. It knows nothing of trees, tokens or components: a page has a name, the name
of its head (the page that has to be there for it to be of use), and bytes. Whatever goes wrong in
the world outside is a `Status`, never an exception; what raises is a programmer's error.

One thread uses an instance; another thread or process opens its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

KEY_BYTES = 16
ROOT = bytes(KEY_BYTES)  # the head of a first page


class Status(Enum):
    """Why an operation ended where it did."""

    OK = "ok"
    ABSENT = "absent"  # not there, or (when putting) its head is not
    TORN = "torn"  # something is there, and it is not what was put under that name
    FULL = "full"  # no room, not even by eviction
    FAILED = "failed"  # the backend could not be reached or refused
    SLOW = "slow"  # no answer in time


class Page(NamedTuple):
    """`key` and `head` have KEY_BYTES bytes; equal keys mean equal payloads."""

    key: bytes
    head: bytes
    payload: bytes | memoryview


class Presence(NamedTuple):
    """Which pages are there, in the order of asking. Unless status is OK, none is claimed."""

    there: tuple[bool, ...]
    status: Status


class Fetched(NamedTuple):
    """Payloads of the leading pages, up to the first that could not be had; `status` says why it
    ended there, OK when all came."""

    payloads: list[memoryview]
    status: Status


class Stored(NamedTuple):
    """How many leading pages are in storage now; `status` says why no more, OK when all are."""

    pages: int
    status: Status


class Usage(NamedTuple):
    """What is kept. `used_bytes` never exceeds `capacity_bytes`, headers included."""

    pages: int
    used_bytes: int
    capacity_bytes: int


class Storage(ABC):
    """Pages below ROOT. Invariant: a page that is there has its head there."""

    @abstractmethod
    def has(self, keys: Sequence[bytes]) -> Presence:
        """Which pages are there now. Promises nothing about later; reads no payload."""

    @abstractmethod
    def get(self, keys: Sequence[bytes]) -> Fetched:
        """The pages' payloads, exactly as they were put, or why not. A damaged page is TORN and is
        removed, so that it can be put again. A use of what was read."""

    @abstractmethod
    def put(self, pages: Sequence[Page]) -> Stored:
        """Keep pages, heads first. A page that is there already counts as stored and as used. Ends
        at the first whose head is not there (ABSENT). Makes room by giving up the least recently
        used pages below which there is nothing; never a head before its tail."""

    @abstractmethod
    def remove(self, keys: Sequence[bytes]) -> int:
        """Give up pages and all that is below them; how many pages went. Absent ones count 0."""

    @abstractmethod
    def usage(self) -> Usage:
        """As far as this instance knows; another process may have changed it since."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; what is stored stays. No other call may follow."""


def longest(presence: Presence) -> int:
    """How many leading pages are there."""
    return next((at for at, there in enumerate(presence.there) if not there), len(presence.there))
