"""Agreements: the least offer holds, and offers meet in order."""

import pytest

from cache.agreement import Agreements, RanksObserver
from cache.contract import BrokenInvariant


class Heard(RanksObserver):
    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def offered(self, rank: int, subject: str, value: int) -> None:
        self.events.append((rank, subject, value))

    def agreed(self, value: int) -> None:
        self.events.append(("agreed", value))


def test_the_least_offer_holds_for_all():
    assert Agreements(3, RanksObserver()).agree("slots", [7, 5, 6]) == 5


def test_nothing_is_agreed_on_while_a_rank_is_missing():
    agreements = Agreements(2, RanksObserver())
    agreements.offer(0, "slots", 3)
    assert agreements.conclude() is None
    assert agreements.count == 0
    agreements.offer(1, "slots", 4)
    assert agreements.conclude() == 3
    assert agreements.count == 1


def test_who_missed_an_agreement_meets_the_others_in_the_next_one_too_late():
    agreements = Agreements(2, RanksObserver())
    agreements.offer(0, "first", 1)
    agreements.offer(0, "second", 9)
    agreements.offer(1, "second", 8)
    assert agreements.conclude() == 1


def test_the_observer_hears_every_offer_and_then_what_was_agreed_on():
    heard = Heard()
    Agreements(2, heard).agree("slots", [4, 2])
    assert heard.events == [(0, "slots", 4), (1, "slots", 2), ("agreed", 2)]


def test_of_several_numbers_the_least_of_each_holds():
    agreements = Agreements(2, RanksObserver())
    assert agreements.agree_on_each("replies", [(1, 0, 3), (0, 1, 2)]) == (0, 0, 2)
    assert agreements.count == 1


def test_offers_of_two_kinds_cannot_meet():
    agreements = Agreements(2, RanksObserver())
    agreements.offer(0, "replies", (1, 0))
    agreements.offer(1, "copies", 2)
    with pytest.raises(BrokenInvariant, match="R2"):
        agreements.conclude()
