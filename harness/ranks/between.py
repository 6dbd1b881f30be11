"""R1 and R2 between processes: what a rank has decided rides with what it offers.

Every meeting is one MIN reduction over

    subject, -subject, digest, -digest, how many, -how many, offers ..., -offers ...

so that all ranks learn the least and the greatest of each. Where a least is not the greatest, a
rank asks for something else (R2) or has decided something else since the meeting before (R1); then,
and only then, they tell each other what. Invariant: no rank goes on from a meeting with others that
have parted from it.
"""

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import zip_longest
from typing import NamedTuple, Protocol

from cache.agreement import Agreements, Offer, RanksObserver
from cache.contract import BrokenInvariant
from cache.unified import UnifiedCache
from harness.oracles.ranks import Entry, Journal, OnOffers, content_of

INLINE = 8  # offers that go with a meeting; more of them take another reduction
TOLD = 400  # decisions that are told when ranks have parted
LONGEST = 160  # characters of each
FORWARD, REST = "a forward", "at rest"


class Numbers(Protocol):
    """What a `Group` does with numbers and words."""

    def least(self, numbers: Sequence[int]) -> list[int]: ...

    def words(self, text: str) -> list[str]: ...


class Met(NamedTuple):
    least: tuple[int, ...]
    greatest: tuple[int, ...]


class RanksApart(BrokenInvariant):
    """R1 or R2. Every rank raises the same one, so it is enough that the first reports it."""


class Between(RanksObserver):
    """What lies between this rank and the others: give it to a `RankedCache` as its observer and
    `journal` to its only cache. `waited_s` is what meetings took, `late` in how many of them the
    others had landed more."""

    def __init__(self, numbers: Numbers) -> None:
        self.journal = Journal()
        self.meetings = 0
        self.late = 0
        self.waited_s = 0.0
        self._numbers = numbers
        self._digest = blake2b(digest_size=7)
        self._since: list[str] = []  # decided since the last meeting

    def stepped(self) -> None:
        """An operation is over: what it decided is part of the digest."""
        entries = self.journal.entries
        if entries:
            self._note(entries)
            entries.clear()

    def meet(self, subject: str, offers: Sequence[int] = ()) -> Met:
        """Every rank has come to the same subject, and has decided alike up to here. Raises
        `RanksApart` on all of them otherwise."""
        self.stepped()
        began = time.perf_counter()
        told = [_number(subject.encode()), _number(self._digest.digest()), len(offers)]
        head = [*told, *list(offers)[:INLINE]]
        head += [0] * (3 + INLINE - len(head))
        least, greatest = self._both(head)
        if least[:3] != greatest[:3]:
            self._tell_apart(subject)
        self.meetings += 1
        self._since.clear()
        if len(offers) > INLINE:
            met = Met(*self._both(offers))
        else:
            stop = 3 + len(offers)
            met = Met(least[3:stop], greatest[3:stop])
        self.waited_s += time.perf_counter() - began
        self.late += tuple(offers) != met.greatest and tuple(offers) == met.least
        return met

    def compare(self, cache: UnifiedCache) -> None:
        """At rest: the trees are compared whole."""
        self.stepped()
        self._note([("tree", *row) for row in content_of(cache)])
        self.meet(REST)

    def _both(self, numbers: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        found = self._numbers.least([*numbers, *(-number for number in numbers)])
        count = len(numbers)
        return tuple(found[:count]), tuple(-number for number in found[count:])

    def _note(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            words = repr(entry)
            self._digest.update(words.encode())
            self._since.append(words)

    def _tell_apart(self, subject: str) -> None:
        said = [subject, *(words[:LONGEST] for words in self._since[:TOLD])]
        everybody = [told.split("\n") for told in self._numbers.words("\n".join(said))]
        (mine, *decided), *others = everybody
        for rank, (theirs, *_) in enumerate(others, 1):
            if theirs != mine:
                raise RanksApart("R2", "order", mine, f"{theirs} on rank {rank}")
        for rank, (_, *told) in enumerate(others, 1):
            for first, other in zip_longest(decided, told):
                if first != other:
                    odd = (other if first in told else first) or other
                    event = str(odd).split("'")[1]
                    raise RanksApart("R1", f"decided.{event}", first, f"{other} on rank {rank}")
        raise RanksApart("R1", "decided", "the decisions of the first rank", "others, earlier")


class Consensus(Agreements):
    """Agreements of this rank, which is one cache, with those of other processes.

    `on_agreed(subject, value)` is told what was agreed on, `on_offers(subject, offers)` the least
    and the greatest that was offered."""

    meets = True

    def __init__(
        self,
        between: Between,
        *,
        on_agreed: Callable[[str, Offer], None] = lambda subject, value: None,
        on_offers: OnOffers = lambda subject, offers: None,
    ) -> None:
        super().__init__(1, between)
        self._between = between
        self._on_agreed = on_agreed
        self._on_offers = on_offers
        self._said: list[tuple[str, Offer]] = []

    def offer(self, rank: int, subject: str, value: Offer) -> None:
        self._said.append((subject, value))
        super().offer(rank, subject, value)

    def conclude(self) -> Offer | None:
        """None where this rank has made no offer: it goes on, and the others wait."""
        if not self._said:
            return None
        subject, value = self._said.pop(0)
        self._open[0].popleft()
        single = isinstance(value, int)
        least, greatest = self._between.meet(subject, (value,) if isinstance(value, int) else value)
        agreed = tuple(self.choose([a, b]) for a, b in zip(least, greatest, strict=True))
        if agreed != least:
            raise BrokenInvariant("R1", "agreed", f"the least offer, {least}", agreed)
        found: Offer = agreed[0] if single else agreed
        self.count += 1
        self._observer.agreed(found)
        self._on_agreed(subject, found)
        self._on_offers(subject, [least[0], greatest[0]] if single else [least, greatest])
        return found


def _number(word: bytes) -> int:
    """62 bits, so that its negative is a number, too."""
    return int.from_bytes(blake2b(word, digest_size=8).digest(), "little") >> 2
