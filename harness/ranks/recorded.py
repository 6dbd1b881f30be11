"""What the ranks of a run agreed on, kept so that one process can follow all of them.

Which rank's bytes came when is nowhere else in a record: decisions say when somebody looked, and
these what there was to see. Invariant: one line an agreement, in order.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from cache.agreement import Agreements, Offer, RanksObserver
from cache.observer import Observer
from cache.ranks import RankedCache
from cache.unified import UnifiedCache
from harness.explore.kernel import Ended
from harness.model.shard import ALONE, Sums
from harness.oracles.ranks import OnOffers
from harness.record.directory import LostOutput
from harness.record.lines import LineFile
from harness.record.ranks import RankRow

FILE = "agreements.csv"
HEADER = "subject,least"
Known = tuple[str, tuple[int, ...]]


class AgreementsFile:
    """The file of a run, while it grows."""

    def __init__(self, folder: Path) -> None:
        self._file = LineFile(folder / FILE, header=HEADER)

    def add(self, subject: str, value: Offer) -> None:
        numbers = (value,) if isinstance(value, int) else value
        self._file.append(f"{subject},{' '.join(map(str, numbers))}")

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> LostOutput | None:
        return self._file.close()


class BadAgreements(ValueError):
    """A file that is no list of agreements; one line says why."""


def read_agreements(folder: Path) -> Iterator[Known]:
    """Those of a run directory, one by one. Raises `BadAgreements`."""
    try:
        lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
    except OSError:
        raise BadAgreements(f"{folder} has no {FILE}: only runs of several processes do") from None
    if lines[:1] != [HEADER]:
        raise BadAgreements(f"{folder / FILE} does not begin with {HEADER}")
    for number, line in enumerate(lines[1:], 2):
        subject, _, numbers = line.rpartition(",")
        try:
            yield subject, tuple(int(word) for word in numbers.split())
        except ValueError:
            what = f"{folder / FILE}, line {number}: not an agreement: {line!r}"
            raise BadAgreements(what) from None


class Otherwise(Exception):
    """The run that follows asks for another agreement than the record has."""


class Recorded(Agreements):
    """Agreements that were come to once: what is offered meets what the record says."""

    meets = True  # as they did

    def __init__(self, known: Iterator[Known]) -> None:
        super().__init__(1, RanksObserver())
        self._known = known
        self._asked: list[tuple[str, Offer]] = []

    def offer(self, rank: int, subject: str, value: Offer) -> None:
        self._asked.append((subject, value))

    def conclude(self) -> Offer | None:
        asked, offer = self._asked.pop(0)
        subject, numbers = next(self._known, ("nothing more", ()))
        count = 1 if isinstance(offer, int) else len(offer)
        if (subject, len(numbers)) != (asked, count):
            raise Otherwise(f"the record goes on with {subject}; here {asked} is asked for")
        self.count += 1
        return numbers[0] if isinstance(offer, int) else numbers


class RecordedParty:
    """Stands for all ranks of a run that is followed: a `Party`."""

    rank = 0
    sums: Sums = ALONE

    def __init__(self, ranks: int, known: Iterator[Known]) -> None:
        self.ranks = ranks
        self.listener = Observer()
        self._known = known

    def cache_of(self, own: UnifiedCache, on_offers: OnOffers) -> RankedCache:
        return RankedCache([own], agreements=Recorded(self._known))

    def before_forward(self) -> None: ...

    def at_rest(self, own: UnifiedCache) -> None: ...

    def together(self, numbers: Mapping[str, int]) -> dict[str, list[int]]:
        return {name: [number] for name, number in numbers.items()}

    def ended(self, ended: Ended | None) -> None: ...

    def last(self, mine: RankRow, lost: str) -> tuple[list[RankRow], str]:
        return [mine], ""

    def waits(self) -> Mapping[str, int | float]:
        return {}
