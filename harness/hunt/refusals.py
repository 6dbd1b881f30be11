"""Rooms that are refused on purpose: making room, on either tier, may fall short, as if everything
were held by somebody else.

    room.refuse backup.refuse   on all ranks alike, each time that one of them makes room
    rank.load_back and others   by one pool of one rank alone, at the n-th agreement from now
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

from cache.agreed_room import BACKUPS, EVICTION, LOAD_BACK, PAGES, PREFETCH
from cache.config import Tier
from cache.contract import Demand, Room
from cache.pools import SlotPool
from cache.unified import UnifiedCache
from harness.explore.kernel import Kernel
from harness.hunt.ranks import Tortured

APART = {  # by what ranks agree on
    LOAD_BACK: "rank.load_back",
    PAGES: "rank.pages",
    BACKUPS: "rank.backups",
    PREFETCH: "rank.prefetch",
    EVICTION: "rank.eviction",
}
# Where the pools are that it asks for; of the others on any tier, since what is agreed on once
# holds for whatever else a turn asks for.
TIERS = {LOAD_BACK: (Tier.DEVICE,), PREFETCH: (Tier.HOST,)}
AHEAD = 2  # agreements that one draw speaks of


class Refusals:
    """`left` more rooms of a run may be refused on all ranks, and `left_apart` on one; if all were,
    nobody would ever get on."""

    def __init__(self, kernel: Kernel, most: int) -> None:
        self.left, self.left_apart = most, 2 * most
        self._most = self.both_left
        self._kernel = kernel

    @property
    def any(self) -> bool:
        """Whether room that could be had was refused."""
        return self.both_left != self._most

    @property
    def both_left(self) -> tuple[int, int]:
        return self.left, self.left_apart

    def begin(self, ranks: Sequence[UnifiedCache]) -> None:
        """From now on the first rank draws, and the others hear what it drew, in its order."""
        first, *others = ranks
        heard: list[deque[bool]] = [deque() for _ in others]

        def draws(label: str) -> bool:
            refused = bool(self.left and self._kernel.draw(label, 2))
            self.left -= refused
            for answers in heard:
                answers.append(refused)
            return refused

        _tamper(first, draws)
        for rank, answers in zip(others, heard, strict=True):
            _tamper(rank, _repeating(answers))

    def begin_apart(self, cache: Tortured) -> None:
        """From now on one of several ranks may shut a pool whenever they agree on room."""
        if isinstance(cache, UnifiedCache):
            return
        pools = [(tier, pool) for rank in cache.ranks for tier, pool in _pools(rank)]
        asked = {s: [pool for tier, pool in pools if tier in TIERS.get(s, Tier)] for s in APART}
        turns = {s: self._turns(label, len(asked[s])) for s, label in APART.items()}
        agree = cache.room.agree

        def refuse(subject: str) -> bool:
            for _, pool in pools:
                pool.open = True
            if (which := next(turns[subject])) is not None:
                asked[subject][which].open = False
            return agree(subject)

        cache.room.agree = refuse  # type: ignore[method-assign]

    def _turns(self, label: str, pools: int) -> Iterator[int | None]:
        """For one agreement after the other, which of the pools is shut, if any. One draw speaks of
        several: of draws for each, the first ones would use up all that may be refused."""
        while self.left_apart:
            drawn = self._kernel.draw(label, 1 + AHEAD * pools)
            after, pool = divmod(drawn - 1, pools) if drawn else (AHEAD, 0)
            yield from [None] * after
            if drawn:
                self.left_apart -= 1
                yield pool
        yield from repeat(None)


def _pools(rank: UnifiedCache) -> list[tuple[Tier, SlotPool]]:
    """Those that anything is ever taken from."""
    hierarchical = rank.config.hierarchical
    return [(tier, pool) for (tier, _), pool in rank.pools.items() if hierarchical or not tier]


def _repeating(answers: deque[bool]) -> Callable[[str], bool]:
    """What was drawn; nothing more where a rank asks oftener than the first one did."""
    return lambda label: bool(answers) and answers.popleft()


def _tamper(rank: UnifiedCache, refuses: Callable[[str], bool]) -> None:
    evictor, hosts = rank.evictor, rank.backups._hosts
    make_room, make_host_room = evictor.make_room, hosts.make_room

    def on_device(demand: Demand) -> Room:
        if refuses("room.refuse"):
            nothing = (0,) * rank.config.width
            return Room(tuple(max(1, n) for n in demand[: len(nothing)]), nothing)
        return make_room(demand)

    def on_host(pages: list[int]) -> bool:
        return not refuses("backup.refuse") and make_host_room(pages)

    evictor.make_room = on_device  # type: ignore[method-assign]
    hosts.make_room = on_host  # type: ignore[method-assign]
