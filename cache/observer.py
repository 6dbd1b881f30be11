"""What the cache tells whoever watches it: oracles, counters, published KV events.

The base class does nothing. Watchers override what they need and must not change the cache.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cache.config import Component, Tier
    from cache.contract import Commit, Demand, LoadBack, Match, Reading, Room
    from cache.locks import Lock
    from cache.pools import Owner, SlotPool
    from cache.storage.contract import Page
    from cache.storage_moves import Persist, Prefetch, Wanted
    from cache.table import PageTable
    from cache.transfers import Copy
    from cache.tree import Node


class Observer:
    """One method for each kind of event, called right after it unless its name says otherwise."""

    # pools
    def allocated(self, pool: "SlotPool", slots: list[int], owner: "Owner") -> None: ...

    def releasing(self, pool: "SlotPool", slots: list[int], owner: "Owner") -> None:
        """Before the release is checked and carried out."""

    def released(self, pool: "SlotPool", slots: list[int]) -> None: ...

    def moved(self, pool: "SlotPool", slots: list[int], old: "Owner", new: "Owner") -> None: ...

    # content
    def writing(self, pool: "SlotPool", slots: list[int], prints: list[int]) -> None:
        """Before compute writes."""

    def took_state(self, table: "PageTable", slot: int) -> None:
        """A state slot has become the table's own."""

    def gave_way(self, table: "PageTable") -> None:
        """The table's slot for a boundary's state was taken back for one that could not begin."""

    def forked(self, table: "PageTable", node: "Node") -> None:
        """The table's own state has become a copy of the node's."""

    def reading(self, table: "PageTable", tokens: int, reading: "Reading") -> None: ...

    # tree
    def added(self, node: "Node") -> None: ...

    def split(self, upper: "Node", lower: "Node") -> None: ...

    def removed(self, node: "Node") -> None: ...

    # residency; `stored` when slots become ready, `dropped` when ready slots are given up
    def filling(self, node: "Node", tier: "Tier", component: "Component") -> None: ...

    def stored(self, node: "Node", tier: "Tier", component: "Component") -> None: ...

    def dropped(self, node: "Node", tier: "Tier", component: "Component") -> None: ...

    # locks
    def locked(self, lock: "Lock") -> None: ...

    def unlocked(self, lock: "Lock") -> None: ...

    def narrowed(self, lock: "Lock", component: "Component") -> None: ...

    # copies
    def issued(self, copy: "Copy") -> None: ...

    def running(self, copy: "Copy") -> None:
        """Before the bytes move; where a stream moves them by itself, right after. The source
        holds what it held all along."""

    def overruled(self, copy: "Copy") -> None:
        """It ran, and counts as broken, for another rank's did."""

    def acknowledged(self, copy: "Copy") -> None:
        """`copy.state` tells whether its targets became ready or were given back."""

    # storage; moves are persists and prefetches
    def persist_issued(self, persist: "Persist") -> None: ...

    def persisting(self, persist: "Persist", pages: list["Page"]) -> None:
        """Before storage is handed the pages."""

    def replied(self, move: "Persist | Prefetch") -> None:
        """Storage has answered; the scheduler has not taken note yet."""

    def heeded(self, move: "Persist | Prefetch") -> None:
        """Ranks have agreed on the reply: it counts as the move has it now."""

    def persisted(self, persist: "Persist") -> None:
        """`persist.state` tells whether all of it is in storage now."""

    def prefetch_asked(self, prefetch: "Prefetch") -> None: ...

    def prefetch_reserving(self, prefetch: "Prefetch") -> None:
        """Before room is made for it on the host."""

    def prefetch_reserved(self, prefetch: "Prefetch") -> None:
        """It has its host slots and its end."""

    def landing(
        self, prefetch: "Prefetch", wanted: "Wanted", slot: int, contents: tuple[int, ...]
    ) -> None:
        """Before what has been fetched for a page, or a companion of one, is written where it
        belongs, which is `slot` of the owner."""

    def grafted(self, prefetch: "Prefetch", nodes: list["Node"]) -> None:
        """`nodes` are new; existing ones may have taken slots too."""

    def prefetch_ended(self, prefetch: "Prefetch") -> None:
        """It holds nothing any more."""

    def stepped(self, move: "Persist | Prefetch") -> None:
        """An operation on a move is over."""

    # operations
    def matched(self, match: "Match") -> None: ...

    def loaded_back(self, match: "Match", result: "LoadBack") -> None: ...

    def settled(self, match: "Match", table: "PageTable") -> None: ...

    def extended(self, table: "PageTable", room: "Room") -> None: ...

    def relocked(self, table: "PageTable") -> None:
        """Slots were short: the table's lock was taken anew, over no more than its window."""

    def slid(self, table: "PageTable", tokens: int) -> None:
        """Told by who drives the cache, after each slide: an operation that does nothing tells
        nothing."""

    def committed(self, table: "PageTable", result: "Commit") -> None: ...

    def closed(self, table: "PageTable") -> None: ...

    def making_room(self, demand: "Demand") -> None: ...

    def made_room(self, demand: "Demand", room: "Room") -> None: ...

    def flushed(self) -> None: ...
