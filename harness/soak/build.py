"""The reference cache of a server, for one rank: over fingerprints, or over the model's tensors."""

from cache.companions import companion_fingerprints
from cache.observer import Observer
from cache.storage.contract import ROOT, Storage
from cache.storage.naming import identity_of_rank
from cache.stores import fingerprints
from cache.unified import UnifiedCache
from harness.soak.plan import ServerPlan


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
