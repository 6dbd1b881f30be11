"""Rooms that are refused on purpose: making room, on either tier, may fall short, as if everything
were held by somebody else. On all ranks alike, for what they hold is the same; but that a prefetch
finds room is agreed on, and one rank alone may refuse it."""

from collections import deque
from collections.abc import Callable, Sequence

from cache.contract import Demand, Room
from cache.storage_moves import Prefetch
from cache.unified import UnifiedCache
from harness.explore.kernel import Kernel


class Refusals:
    """`left` more rooms of a run may be refused; if all were, nobody would ever get on."""

    def __init__(self, kernel: Kernel, most: int) -> None:
        self.left = most
        self._most = most
        self._kernel = kernel

    @property
    def any(self) -> bool:
        """Whether room that could be had was refused."""
        return self.left < self._most

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
        for rank in ranks if others else ():
            self._tamper_with_prefetches(rank)

    def _tamper_with_prefetches(self, rank: UnifiedCache) -> None:
        """Whether a prefetch has room is agreed on, so each of several ranks may refuse it."""
        if rank.storage is None:
            return
        prefetches = rank.storage.prefetches
        has_room = prefetches.has_room

        def draws(prefetch: Prefetch) -> bool:
            refused = bool(self.left and self._kernel.draw("prefetch.refuse", 2))
            self.left -= refused
            return not refused and has_room(prefetch)

        prefetches.has_room = draws  # type: ignore[method-assign]


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
