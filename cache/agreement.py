"""Agreements between ranks: everybody offers a number, and the least of them holds for all.

Offers pair up by their order, as collectives do: the n-th offer of one rank meets the n-th of every
other one, whatever they are about. Invariant (R2): ranks take part in the same agreements in the
same order, so offers that meet are about the same thing.
"""

from collections import deque
from collections.abc import Sequence

from cache.contract import BrokenInvariant

Offer = int | tuple[int, ...]  # a number, or several at once


class RanksObserver:
    """Is told what passes between ranks. Each method is called right after it."""

    def offered(self, rank: int, subject: str, value: Offer) -> None: ...

    def agreed(self, value: Offer) -> None: ...

    def stepped(self) -> None:
        """An operation is over on every rank."""


class Agreements:
    """`count` agreements have been reached."""

    meets = False  # whether others are elsewhere, and have to be waited for

    def __init__(self, ranks: int, observer: RanksObserver) -> None:
        assert ranks >= 1
        self.count = 0
        self._observer = observer
        self._open: list[deque[Offer]] = [deque() for _ in range(ranks)]

    def agree(self, subject: str, offers: Sequence[int]) -> int | None:
        """All ranks come to an agreement. None: one was missing, and the others wait."""
        agreed = self._reach(subject, offers)
        assert not isinstance(agreed, tuple)
        return agreed

    def agree_on_each(
        self, subject: str, offers: Sequence[tuple[int, ...]]
    ) -> tuple[int, ...] | None:
        """One agreement on several numbers: the least of each holds."""
        agreed = self._reach(subject, offers)
        assert not isinstance(agreed, int)
        return agreed

    def offer(self, rank: int, subject: str, value: Offer) -> None:
        """`rank` takes part; it goes on when all have."""
        self._open[rank].append(value)
        self._observer.offered(rank, subject, value)

    def conclude(self) -> Offer | None:
        """The oldest offers meet, if every rank has made one. Raises BrokenInvariant (R2) where
        they are not of one kind."""
        if not all(self._open):
            return None
        value = self._least([offers.popleft() for offers in self._open])
        self.count += 1
        self._observer.agreed(value)
        return value

    def choose(self, offers: list[int]) -> int:
        return min(offers)

    def _reach(self, subject: str, offers: Sequence[Offer]) -> Offer | None:
        assert len(offers) == len(self._open)
        for rank, value in enumerate(offers):
            self.offer(rank, subject, value)
        return self.conclude()

    def _least(self, met: list[Offer]) -> Offer:
        numbers = [value for value in met if isinstance(value, int)]
        if len(numbers) == len(met):
            return self.choose(numbers)
        rows = [value for value in met if isinstance(value, tuple)]
        if len(rows) < len(met) or len({len(row) for row in rows}) > 1:
            raise BrokenInvariant("R2", "met", "offers of one kind", met)
        return tuple(self.choose(list(column)) for column in zip(*rows, strict=True))
