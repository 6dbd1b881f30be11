"""What a cache promises a scheduler.

Every operation is synchronous and atomic: whatever happens between two of them (copies landing,
other requests, aborts) is the world's doing. Implementations are silent; the promises stand here.

The life of one request, as the scheduler calls it:

    match -> lock -> load_back -> settle -> unlock -> extend      admission
    read, write, commit | slide -> extend                         prefill chunks, decode
    finish | abort                                                the end

and beside it, for every copy that `load_back`, `commit` or `make_room` put into flight:

    streams: copy.run (the bytes move) ... acknowledge(copy)
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from cache.config import CacheConfig, Component
from cache.keys import Key

if TYPE_CHECKING:
    from cache.locks import Lock
    from cache.pools import SlotPool
    from cache.storage_tier import StorageTier
    from cache.table import PageTable
    from cache.transfers import Copy, Transfers
    from cache.tree import Node


class BrokenInvariant(AssertionError):
    """A promise of this cache does not hold: the name of the oracle, and what was expected and
    seen. Raised by the inline checks; `audit` and the harness's oracles report the same record."""

    def __init__(self, oracle: str, signature: str, expected: object, seen: object) -> None:
        super().__init__(f"{oracle} {signature}: expected {expected}, saw {seen}")
        self.oracle = oracle
        self.signature = signature
        self.expected = str(expected)
        self.seen = str(seen)


class Match(NamedTuple):
    """How far the tree can serve a key. Nothing is held: the next operation may void it."""

    key: Key
    device: "Node"  # deepest node servable from the device alone; the root when nothing is
    anchor: "Node"  # deepest node servable once a load-back has landed; never above `device`
    load_pages: tuple[int, ...]  # per component, what that load-back has to copy
    known_tokens: int = 0  # whole pages of the key that the tree has nodes for, servable or not

    @property
    def device_tokens(self) -> int:
        return self.device.end

    @property
    def loadable_tokens(self) -> int:
        return self.anchor.end


class Demand(NamedTuple):
    """Free device slots wanted, per component."""

    full: int
    swa: int = 0
    mamba: int = 0


class Room(NamedTuple):
    """What `make_room` reached: slots still missing, and slots that copies in flight will free."""

    short: tuple[int, ...]
    pending: tuple[int, ...]

    @property
    def enough(self) -> bool:
        return not any(self.short)

    @property
    def worth_waiting(self) -> bool:
        return any(self.pending)


class LoadOutcome(Enum):
    NOTHING = "nothing to load"
    ISSUED = "issued"
    JOINED = "joined a copy in flight"
    TOO_SHORT = "below the load-back threshold"
    STALE = "the anchor is no longer loadable"
    NO_ROOM = "no device slots"


class LoadBack(NamedTuple):
    """What became of a load-back. `copy` is there iff outcome is ISSUED."""

    outcome: LoadOutcome
    pages: tuple[int, ...]  # per component, reserved on the device
    copy: "Copy | None"
    room: Room


class Commit(NamedTuple):
    """What `commit` put into the tree."""

    pages: int  # pages of the key now in the tree
    adopted: int  # request pages that became the tree's
    duplicates: int  # request pages given back because the tree had them
    blocked: bool  # stopped above a node that a copy is filling; the rest stays the request's


class Reading(NamedTuple):
    """What attention sees through the page table: page fingerprints, in page order."""

    full: list[int]  # pages 0 .. n-1
    swa: list[int]  # pages swa_start .. n-1; empty without the component
    swa_start: int
    state: int = 0  # of the request's own recurrent state; 0 without one
    companions: tuple[list[int], ...] = ()  # what each holds beside these, component by component


class Cache(ABC):
    """A prefix cache for one rank. See the module docstring for the order of calls."""

    config: CacheConfig
    transfers: "Transfers"
    storage: "StorageTier | None" = None  # tells what schedulers and storage's streams call

    @property
    def ranks(self) -> "tuple[Cache, ...]":
        """The cache of each tensor-parallel rank, whose copies run and fail by themselves; handles
        are the first one's. A cache for one rank is its own only one."""
        return (self,)

    @property
    def agreed(self) -> int:
        """How many agreements the ranks have come to."""
        return 0

    def begin_turn(self) -> None:
        """A turn of the scheduler begins: what ranks next agree on as to room holds for all of it.
        Who knows no turns has them agree for each operation."""
        return  # one rank has nobody to agree with

    @property
    def meets(self) -> bool:
        """Whether these are with other processes, and took their time."""
        return False

    @abstractmethod
    def match(self, key: Key) -> Match:
        """The longest servable and loadable prefixes of `key`, in whole pages, at most n-1 tokens.

        Changes no content and no residency. May split a node where the key leaves its edge, so
        that both answers end at nodes. Cost: one dictionary look-up and one memory compare for
        each branching point on the path."""

    @abstractmethod
    def lock(self, match: Match, holder: str) -> "Lock | None":
        """Take the admission lock: device and host, from `match.anchor` up, whatever is resident.

        Until `unlock` nothing below that lock is evicted from either tier and nothing revived
        under it is lost. None when the anchor has left the tree since `match`: match again."""

    @abstractmethod
    def load_back(self, match: Match, admission: "Lock") -> LoadBack:
        """Reserve device slots for what the anchor lacks and queue the copy from the host.

        All components or none. Pieces that another load-back is already filling are joined, not
        copied twice. A state goes to the tree, from where every request that waits for it gets a
        copy when it has landed. Makes room by evicting; never evicts under `admission`."""

    @abstractmethod
    def settle(
        self, match: Match, admission: "Lock", holder: str, priority: int = 0
    ) -> "PageTable":
        """Take the request lock on the deepest prefix that is servable *now* and open its table.

        The table's `waits` are the copies that must be acknowledged before the prefix is read.
        Counts a use of every node on the path; under the write policy that may issue backups."""

    @abstractmethod
    def unlock(self, lock: "Lock") -> None:
        """Hand a receipt back. Raises BrokenInvariant (L1) on a second hand-back or a receipt that
        this cache never gave out."""

    @abstractmethod
    def extend(self, table: "PageTable", tokens: int) -> Room:
        """Give the table pages for `tokens` tokens in all, evicting the shortfall if need be; with
        the first pages a recurrent state of its own, copied from the tree's where the hit ends (as
        soon as that has landed).

        All pages and the state, or nothing: `Room.enough` tells. They are the request's own until
        `commit`. A second state slot, to keep the state at a page boundary for the tree, comes
        along if it can be had at once; it is taken back when another request lacks one to begin."""

    @abstractmethod
    def write(self, table: "PageTable", prints: Sequence[int], tokens: int) -> None:
        """Record that compute wrote KV up to `tokens`; `prints` are the key's page fingerprints.
        Only pages and states that the table owns are written."""

    @abstractmethod
    def read(self, table: "PageTable", tokens: int) -> Reading:
        """What attention for the token at position `tokens` sees: all whole FULL pages below it,
        the SWA pages of its window and, where `tokens` is all that is written, the state that it
        goes on from. Requires that every copy in `table.waits` has landed."""

    @abstractmethod
    def commit(self, table: "PageTable", key: Key) -> Commit:
        """Put the table's written whole pages into the tree and move the request lock down.

        Where the tree has a page, the request's duplicate goes back to the pool and the table
        points at the tree's; where it has a tombstone, it takes the request's slots. Afterwards
        the prefix up to the new anchor is servable for every component, unless `blocked`, or there
        was no slot to keep its state in."""

    @abstractmethod
    def slide(self, table: "PageTable", tokens: int) -> None:
        """Let go of SWA slots that no token at position `tokens` or later will read and that the
        window of the whole pages written so far does not need: the table's own, and the SWA part
        of its lock once the window has left the shared prefix."""

    @abstractmethod
    def finish(self, table: "PageTable", key: Key) -> Commit:
        """`commit`, then give back everything that is the request's: pages, states and lock. If it
        ends on a page boundary, the state that it computed with is the one for the tree."""

    @abstractmethod
    def abort(self, table: "PageTable") -> None:
        """Give back everything that is the request's without inserting. Copies in flight go on."""

    @abstractmethod
    def make_room(self, demand: Demand) -> Room:
        """Evict until `demand` device slots are free or nothing unlocked is left. Evicts the
        shortfall, not the demand; `make_room` of what is free is a no-op."""

    @abstractmethod
    def acknowledge(self, copy: "Copy") -> None:
        """The scheduler takes note that a copy has run (or failed): its targets become ready (or
        are given back) and its locks are released. Copies of a direction in order of issue."""

    def in_flight(self) -> int:
        """Copies, and moves to and from storage that hold device slots: each will end, and may let
        go of something."""
        return len(self.transfers) + (
            self.storage.device_holders if self.storage is not None else 0
        )

    @abstractmethod
    def flush(self) -> bool:
        """Forget everything cached. False, and nothing changed, while anything is held or in
        flight."""

    @abstractmethod
    def pool(self, component: Component, tier: int) -> "SlotPool":
        """The slot pool of a component on a tier (for gauges; use the operations to change it)."""

    @abstractmethod
    def available(self, component: Component) -> int:
        """Device pages that are free or could be evicted now: the admission budget."""
