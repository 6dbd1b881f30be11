"""Several ranks with a watch each: what any of them finds is reported by the first one's."""

from collections.abc import Callable, Collection, Sequence

from cache.config import CacheConfig
from cache.ranks import RankedCache
from cache.storage.contract import ROOT, Storage
from cache.storage.naming import identity_of_rank
from cache.unified import UnifiedCache
from harness.oracles.base import Oracle
from harness.oracles.ranks import OnOffers, Ranks
from harness.oracles.violation import Violation
from harness.oracles.watch import Watch


class WatchedRanks:
    """Builds the cache; `attach` before its first operation.

    `watch` is the first rank's, not attached yet, and `oracles()` are fresh ones for another's.
    All ranks keep their pages in `backend`, each under an identity of its own. What lies between
    them is not watched if `without` names it."""

    def __init__(
        self,
        configs: Sequence[CacheConfig],
        watch: Watch,
        oracles: Callable[[], list[Oracle]],
        *,
        audit_every: int = 0,
        backend: Storage | None = None,
        identity: bytes = ROOT,
        without: Collection[str] = (),
        on_offers: OnOffers | None = None,
    ) -> None:
        told = _nobody if Ranks.name in without else watch.report
        self.between = Ranks(len(configs), told, on_offers=on_offers)
        watch.listen(self.between.journals[0])

        def relay(seen: Violation) -> None:
            watch.report(seen.oracle, seen.signature, seen.expected, seen.seen)

        self.watches = [watch]
        for journal in self.between.journals[1:]:
            self.watches.append(
                Watch(oracles(), listeners=[journal], on_violation=relay, audit_every=audit_every)
            )
        self.cache = RankedCache(
            [
                UnifiedCache(
                    config,
                    own,
                    backend=backend,
                    identity=identity_of_rank(identity, rank, len(configs)),
                )
                for rank, (config, own) in enumerate(zip(configs, self.watches, strict=True))
            ],
            self.between,
        )

    def attach(self) -> None:
        for rank, watch in zip(self.cache.ranks, self.watches, strict=True):
            watch.attach(rank)

    def at_rest(self) -> None:
        """All requests have ended and nothing is in flight."""
        self.between.at_rest(self.cache.ranks)
        for watch in self.watches:
            watch.at_rest()


def _nobody(oracle: str, signature: str, expected: object, seen: object) -> None: ...
