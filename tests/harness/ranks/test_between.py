"""R1 and R2 between ranks that meet in one reduction; here they are threads."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Barrier, Thread

import pytest

from cache.contract import BrokenInvariant
from harness.ranks.between import Between, Consensus, RanksApart
from harness.ranks.recorded import (
    AgreementsFile,
    BadAgreements,
    Otherwise,
    Recorded,
    read_agreements,
)


class Room:
    """Where threads meet as processes do."""

    def __init__(self, ranks: int) -> None:
        self._barrier = Barrier(ranks, timeout=30)
        self._said: list[object] = [None] * ranks

    def seat(self, rank: int) -> "Seat":
        return Seat(self, rank)

    def hear(self, rank: int, said: object) -> list[object]:
        self._said[rank] = said
        self._barrier.wait()
        heard = list(self._said)
        self._barrier.wait()
        return heard


class Seat:
    def __init__(self, room: Room, rank: int) -> None:
        self._room, self._rank = room, rank

    def least(self, numbers: Sequence[int]) -> list[int]:
        heard = self._room.hear(self._rank, list(numbers))
        return [min(column) for column in zip(*heard, strict=True)]  # type: ignore[call-overload]

    def words(self, text: str) -> list[str]:
        return [str(said) for said in self._room.hear(self._rank, text)]


def each(*ranks: Callable[[Between], object]) -> list[object]:
    """What each rank comes to, or raises, in a thread of its own."""
    room = Room(len(ranks))
    found: list[object] = [None] * len(ranks)

    def run(rank: int) -> None:
        try:
            found[rank] = ranks[rank](Between(room.seat(rank)))
        except BrokenInvariant as error:
            found[rank] = error

    threads = [Thread(target=run, args=(rank,)) for rank in range(len(ranks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def deciding(*entries: tuple[object, ...]) -> Callable[[Between], object]:
    def rank(between: Between) -> object:
        between.journal.entries.append(("matched", 1))
        between.meet("earlier")
        between.journal.entries.extend(entries)
        return between.meet("a forward")

    return rank


def offering(*offers: int | tuple[int, ...]) -> Callable[[Between], object]:
    def rank(between: Between) -> object:
        consensus = Consensus(between)
        agreed = []
        for offer in offers:
            consensus.offer(0, "copies to the host", offer)
            agreed.append(consensus.conclude())
        return agreed, between.late

    return rank


def test_the_least_offer_holds_for_all_and_who_was_late_knows() -> None:
    first, second = each(offering(2, 0, (1, 2)), offering(0, 0, (3, 1)))
    assert first == ([0, 0, (1, 1)], 0)
    assert second == ([0, 0, (1, 1)], 1)


def test_more_offers_than_fit_beside_the_digest_take_a_second_reduction() -> None:
    first, second = each(offering(tuple(range(20))), offering(tuple(range(20, 0, -1))))
    assert first == second == ([tuple(min(n, 20 - n) for n in range(20))], 0)


def test_ranks_that_decided_alike_meet_and_others_are_told_apart() -> None:
    alike = each(deciding(("split", 3)), deciding(("split", 3)))
    assert alike == [((), ()), ((), ())]
    for apart in each(deciding(("split", 3), ("dropped", 4)), deciding(("split", 3), ("added", 5))):
        assert isinstance(apart, RanksApart)
        assert (apart.oracle, apart.signature) == ("R1", "decided.dropped")
        assert (apart.expected, apart.seen) == ("('dropped', 4)", "('added', 5) on rank 1")
    for apart in each(deciding(), deciding(("added", 5))):
        assert isinstance(apart, RanksApart)
        assert (apart.signature, apart.seen) == ("decided.added", "('added', 5) on rank 1")


def test_ranks_that_meet_about_different_things_break_r2() -> None:
    def forward(between: Between) -> object:
        return between.meet("a forward")

    for apart in each(offering(0), forward):
        assert isinstance(apart, RanksApart)
        assert (apart.oracle, apart.expected) == ("R2", "copies to the host")
        assert apart.seen == "a forward on rank 1"


def test_a_reduction_that_takes_the_most_breaks_r1() -> None:
    def greedy(between: Between) -> object:
        consensus = Consensus(between)
        consensus.choose = max  # type: ignore[method-assign, assignment]
        consensus.offer(0, "copies to the host", 2)
        return consensus.conclude()

    _, broken = each(offering(0), greedy)
    assert isinstance(broken, BrokenInvariant)
    assert broken.oracle == "R1"


def test_agreements_are_read_as_they_were_written_and_met_in_order(tmp_path: Path) -> None:
    file = AgreementsFile(tmp_path)
    file.add("copies to the host", 2)
    file.add("what is there", (1, 0, 1))
    assert file.close() is None
    known = list(read_agreements(tmp_path))
    recorded = Recorded(iter(known))
    assert recorded.agree("copies to the host", [0]) == 2
    assert recorded.agree_on_each("what is there", [(1, 1, 1)]) == (1, 0, 1)
    with pytest.raises(Otherwise, match="nothing more"):
        recorded.agree("copies to the host", [0])
    with pytest.raises(Otherwise, match="goes on with copies to the host; here what is there"):
        Recorded(iter(known)).agree("what is there", [0])
    (tmp_path / "agreements.csv").write_text("subject,least\ncopies,x\n")
    with pytest.raises(BadAgreements, match="line 2"):
        list(read_agreements(tmp_path))
    with pytest.raises(BadAgreements, match="only runs of several processes"):
        list(read_agreements(tmp_path / "elsewhere"))
