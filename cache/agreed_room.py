"""Room between ranks: a pool that one rank has shut gives no slots on any.

Pools are filled by decisions alone, so by their books all ranks have as many slots to give. What
the books do not tell is a rank's own: something else on its machine may want the memory now. A rank
that refused a slot by itself would go on without pages that the others have. Invariant (R1): from
one agreement to the next the same pools give slots on every rank.
"""

from collections.abc import Sequence

from cache.agreement import Agreements
from cache.unified import UnifiedCache

# What is agreed on: which pools give slots for
LOAD_BACK = "room for a load-back"
PAGES = "room for pages"  # and states, of a request's own
BACKUPS = "room for backups"
PREFETCH = "room for a prefetch"
EVICTION = "room to be made"
ROOMS = (LOAD_BACK, PAGES, BACKUPS, PREFETCH, EVICTION)


class AgreedRoom:
    """`agree` comes before every operation that may want slots. Once turns are told of, the first
    one of a turn agrees for all of it: one reduction carries what would have been several."""

    def __init__(self, ranks: Sequence[UnifiedCache], agreements: Agreements) -> None:
        self._ranks = tuple(ranks)
        self._agreements = agreements
        self._in_turns = False
        self._fresh = False  # an agreement of this turn holds

    def begin_turn(self) -> None:
        """What was agreed on before holds no more."""
        self._in_turns, self._fresh = True, False

    def agree(self, subject: str) -> bool:
        """Every rank says which of its pools are open, and heeds what is so on all. False: one was
        missing, and what was agreed on before holds."""
        if self._in_turns and self._fresh:
            return True
        offers = [rank.open_pools() for rank in self._ranks]
        agreed = self._agreements.agree_on_each(subject, offers)
        if agreed is None:
            return False
        for rank in self._ranks:
            rank.heed_open(agreed)
        self._fresh = True
        return True
