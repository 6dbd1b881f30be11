"""One rank among processes that run: what it decides, agrees on and computes with the others."""

from collections.abc import Callable, Mapping

from cache.agreement import Offer
from cache.observer import Observer
from cache.ranks import RankedCache
from cache.unified import UnifiedCache
from harness.explore.kernel import Ended
from harness.faults import fault_named
from harness.model.shard import Sums
from harness.oracles.ranks import OnOffers
from harness.ranks.between import FORWARD, Between, Consensus
from harness.ranks.group import Group
from harness.record.ranks import RankRow

OnAgreed = Callable[[str, Offer], None]  # about what, and what ranks came to


class Member:
    """A `Party`. `fault` names a defect that is put into this rank's cache, to see it found."""

    def __init__(
        self, group: Group, on_agreed: OnAgreed = lambda subject, value: None, fault: str = ""
    ) -> None:
        self.rank, self.ranks = group.rank, group.ranks
        self._group = group
        self._between = Between(group)
        self._on_agreed = on_agreed
        self._fault = fault

    @property
    def listener(self) -> Observer:
        return self._between.journal

    @property
    def sums(self) -> Sums:
        return self._group

    def cache_of(self, own: UnifiedCache, on_offers: OnOffers) -> RankedCache:
        agreements = Consensus(self._between, on_agreed=self._on_agreed, on_offers=on_offers)
        cache = RankedCache([own], self._between, agreements=agreements)
        if self._fault:
            fault_named(self._fault).put_into(cache)
        return cache

    def before_forward(self) -> None:
        self._between.meet(FORWARD)

    def at_rest(self, own: UnifiedCache) -> None:
        self._between.compare(own)

    def together(self, numbers: Mapping[str, int]) -> dict[str, list[int]]:
        everybody = self._group.everybody(list(numbers.values()))
        columns = [list(column) for column in zip(*everybody, strict=True)]
        return dict(zip(numbers, columns, strict=True))

    def ended(self, ended: Ended | None) -> None: ...

    def last(self, mine: RankRow, lost: str) -> tuple[list[RankRow], str]:
        return [mine], ""

    def waits(self) -> Mapping[str, int | float]:
        between = self._between
        return {
            "meetings": between.meetings,
            "meetings_s": between.waited_s,
            "late_agreements": between.late,
        }
