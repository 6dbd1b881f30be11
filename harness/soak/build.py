"""The reference cache of a server: for one rank, over fingerprints or over the model's tensors, or
for all of its ranks in this process."""

from cache.companions import companion_fingerprints
from cache.observer import Observer
from cache.storage.contract import ROOT, Storage
from cache.storage.naming import identity_of_rank
from cache.stores import fingerprints
from cache.unified import UnifiedCache
from harness.oracles import Watch, WatchedRanks, default_oracles
from harness.oracles.ranks import OnOffers
from harness.soak.plan import ServerPlan
from harness.soak.settings import AUDIT_EVERY, Oracles


def one_rank(
    plan: ServerPlan, observer: Observer, storage: Storage | None, rank: int = 0
) -> UnifiedCache:
    """Of the ranks of a server the one of that number. `storage` is what `plan.storage` has opened,
    or None."""
    model, config = plan.model, plan.config
    identity = ROOT if plan.storage is None else plan.storage.identity
    return UnifiedCache(
        config,
        observer,
        backend=storage,
        identity=identity_of_rank(identity, rank, plan.ranks),
        store_of=fingerprints if model is None else model.stores(config),
        companion_store_of=(
            companion_fingerprints if model is None else model.companion_stores(config)
        ),
    )


def every_rank(
    plan: ServerPlan,
    watch: Watch,
    storage: Storage | None,
    *,
    oracles: Oracles,
    on_offers: OnOffers,
) -> WatchedRanks:
    """All ranks of a server, over fingerprints, not attached yet. `watch` is the first rank's;
    `oracles` says how closely the others are watched, `on_offers` is told what ranks agree on."""
    assert plan.model is None, "ranks that compute are processes"
    return WatchedRanks(
        [plan.config] * plan.ranks,
        watch,
        lambda: default_oracles(oracles),
        audit_every=AUDIT_EVERY[oracles],
        backend=storage,
        identity=ROOT if plan.storage is None else plan.storage.identity,
        on_offers=on_offers,
    )
