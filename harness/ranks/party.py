"""What a soak whose ranks are processes knows of the others.

Invariant: this rank's cache is driven as any other's; only what is agreed on comes from elsewhere.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from cache.observer import Observer
from cache.ranks import RankedCache
from cache.unified import UnifiedCache
from harness.explore.kernel import Ended
from harness.oracles.ranks import OnOffers
from harness.record.ranks import RankRow

if TYPE_CHECKING:  # it imports torch, and most soaks have one rank that computes nothing
    from harness.model.shard import Sums


class RankLost(RuntimeError):
    """A rank has died, or does not answer; one line says what is known."""


class Party(Protocol):
    """`rank` of `ranks`; `listener` is to hear what this rank's cache decides."""

    @property
    def rank(self) -> int: ...

    @property
    def ranks(self) -> int: ...

    @property
    def listener(self) -> Observer: ...

    @property
    def sums(self) -> "Sums": ...

    def cache_of(self, own: UnifiedCache, on_offers: OnOffers) -> RankedCache:
        """`own` as one of several: its agreements are with other processes."""
        ...

    def before_forward(self) -> None:
        """All ranks have decided alike, and are about to compute the same."""

    def at_rest(self, own: UnifiedCache) -> None:
        """All trees are equal."""

    def together(self, numbers: Mapping[str, int]) -> dict[str, list[int]]:
        """The same numbers of every rank; all ask for the same at the same step."""
        ...

    def ended(self, ended: Ended | None) -> None:
        """The world has, or was cut off: the others hear of it, or are let go of."""

    def last(self, mine: RankRow, lost: str) -> tuple[list[RankRow], str]:
        """What became of every rank, and in one line why one was lost, if one was. Once, when
        this rank has nothing left to do with the others; `lost` is what it saw of that itself."""
        ...

    def waits(self) -> Mapping[str, int | float]:
        """Of a rank's row: what it has had to do with the others."""
        ...
