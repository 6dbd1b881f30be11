"""Agreements between ranks: everybody offers a number, and the least of them holds for all.

Offers pair up by their order, as collectives do: the n-th offer of one rank meets the n-th of every
other one, whatever they are about. Invariant (R2): ranks take part in the same agreements in the
same order, so offers that meet are about the same thing.
"""

from collections import deque
from collections.abc import Sequence


class RanksObserver:
    """Is told what passes between ranks. Each method is called right after it."""

    def offered(self, rank: int, subject: str, value: int) -> None: ...

    def agreed(self, value: int) -> None: ...

    def stepped(self) -> None:
        """An operation is over on every rank."""


class Agreements:
    """`count` agreements have been reached."""

    def __init__(self, ranks: int, observer: RanksObserver) -> None:
        assert ranks >= 1
        self.count = 0
        self._observer = observer
        self._open: list[deque[int]] = [deque() for _ in range(ranks)]

    def agree(self, subject: str, offers: Sequence[int]) -> int | None:
        """All ranks come to an agreement. None: one was missing, and the others wait."""
        assert len(offers) == len(self._open)
        for rank, value in enumerate(offers):
            self.offer(rank, subject, value)
        return self.conclude()

    def offer(self, rank: int, subject: str, value: int) -> None:
        """`rank` takes part; it goes on when all have."""
        self._open[rank].append(value)
        self._observer.offered(rank, subject, value)

    def conclude(self) -> int | None:
        """The oldest offers meet, if every rank has made one."""
        if not all(self._open):
            return None
        value = self.choose([offers.popleft() for offers in self._open])
        self.count += 1
        self._observer.agreed(value)
        return value

    def choose(self, offers: list[int]) -> int:
        return min(offers)
