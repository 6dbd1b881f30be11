"""Storage of several ranks: each persists and prefetches its own part, and all decide alike.

Every rank asks storage for itself, under names of its own, and is answered when storage likes. What
it was answered is a fact of that rank alone, so nothing follows from it before the ranks have
agreed: what is stored or there, and how far a prefetch has come, is the least of all; what storage
may still be writing into is the most. Invariant (R1): after every operation the ranks' moves hold
as many slots, for the same pages.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from cache.agreed_room import PREFETCH, AgreedRoom
from cache.agreement import Agreements
from cache.config import PrefetchPolicy
from cache.keys import Key
from cache.storage_moves import Move, Persist, Prefetch, PrefetchState, Reached
from cache.storage_tier import StorageTier

# What is agreed on.
REPLIES = "replies of storage"
STORED = "what is stored"
THERE = "what is there"
REACHED = "how far a prefetch is"
PATIENCE = "patience"


class AgreedStorage(StorageTier):
    """The moves of all ranks as their schedulers take note of them; the first rank's stand for the
    others'. Replies come to each rank by itself: whoever runs moves runs those of every rank.

    `stepped()` is called when an operation is over on every rank."""

    def __init__(
        self,
        ranks: Sequence[StorageTier],
        agreements: Agreements,
        room: AgreedRoom,
        stepped: Callable[[], None],
    ) -> None:
        lead = ranks[0]
        self._ranks = tuple(ranks)
        self._lead = lead
        self._agreements = agreements
        self._room = room
        self._stepped = stepped
        self.config, self.backend = lead.config, lead.backend
        self.persists, self.prefetches = lead.persists, lead.prefetches
        self.grafting = lead.grafting

    @property
    def device_holders(self) -> int:
        return self._lead.device_holders

    def prefetch(self, key: Key, holder: str) -> Prefetch:
        lead, *_ = [rank.prefetch(key, holder) for rank in self._ranks]
        self._stepped()
        return lead

    def may_go_on(self, prefetch: Prefetch, waited_s: float, *others_s: float) -> bool:
        """Under `timeout` once every rank says so: clocks differ. `others_s` are what the others'
        say; all the same without."""
        if prefetch.over or self.config.prefetch_policy is not PrefetchPolicy.TIMEOUT:
            return self._lead.may_go_on(prefetch, waited_s)
        clocks = (waited_s, *(others_s or (waited_s,) * (len(self._ranks) - 1)))
        offers = [
            int(rank.may_go_on(own, seconds))
            for (rank, own), seconds in zip(self._parts(prefetch), clocks, strict=True)
        ]
        agreed = self._agreements.agree(PATIENCE, offers)
        self._stepped()
        return bool(agreed)

    def conclude(self, prefetch: Prefetch, reached: Reached | None = None) -> None:
        if prefetch.in_flight and not prefetch.stopped and (least := self._reached(prefetch)):
            for rank, own in self._parts(prefetch):
                rank.conclude(own, least)
        self._stepped()

    def cancel(self, prefetch: Prefetch, reached: Reached | None = None) -> None:
        if prefetch.in_flight and not prefetch.stopped and (least := self._reached(prefetch)):
            for rank, own in self._parts(prefetch):
                rank.cancel(own, least)
        self._stepped()

    def outstanding(self) -> list[Move]:
        """On any rank."""
        return [move for rank in self._ranks for move in rank.outstanding()]

    def replied(self) -> list[Move]:
        """Moves that storage has answered on every rank. Asking is an agreement if any is under
        way."""
        moves = self._lead.line()
        if not moves:
            return []
        offers = [tuple(int(not m.outstanding) for m in rank.line()) for rank in self._ranks]
        agreed = self._agreements.agree_on_each(REPLIES, offers)
        return [move for move, there in zip(moves, agreed or (), strict=False) if there]

    def run(self, move: Move) -> NoReturn:
        raise AssertionError("storage replies to each of the ranks by itself")

    def acknowledge(self, move: Move, reached: Reached | None = None) -> None:
        """Every rank acknowledges its own, as it stands where least has come."""
        if isinstance(move, Persist):
            self._acknowledge_persist()
        elif move.stopped or self._agree_on_reply(move):
            ended = move.phase is PrefetchState.ENDED and not move.stopped
            least = self._reached(move) if ended else move.reached
            for rank, own in self._parts(move) if least else ():
                rank.acknowledge(own, least)
        self._stepped()

    # -- helpers -----------------------------------------------------------------------------

    def _parts(self, prefetch: Prefetch) -> Iterator[tuple[StorageTier, Prefetch]]:
        """Every rank with its own part of a prefetch."""
        for rank in self._ranks:
            yield rank, rank.prefetches.live[prefetch.number]

    def _acknowledge_persist(self) -> None:
        """The oldest one: what any rank's part of it lacks is not stored."""
        oldest = [rank.persists.queue[0] for rank in self._ranks]
        agreed = self._agreements.agree_on_each(STORED, [p.said() for p in oldest])
        for rank, own in zip(self._ranks, oldest, strict=True) if agreed else ():
            assert agreed is not None
            rank.heed(own, agreed)
            rank.acknowledge(own)

    def _agree_on_reply(self, prefetch: Prefetch) -> bool:
        """What is there, and which hosts give room for it. False: a rank was missing."""
        if prefetch.phase is not PrefetchState.ANSWERED:
            return True
        parts = list(self._parts(prefetch))
        agreed = self._agreements.agree_on_each(THERE, [own.said() for _, own in parts])
        if agreed is None:
            return False
        for rank, own in parts:
            rank.heed(own, agreed)
        return self._room.agree(PREFETCH)

    def _reached(self, prefetch: Prefetch) -> Reached | None:
        """The least that has come and the most on its way. None: a rank was missing."""
        offers = [own.reached.offer() for _, own in self._parts(prefetch)]
        agreed = self._agreements.agree_on_each(REACHED, offers)
        return None if agreed is None else Reached.of(agreed)
