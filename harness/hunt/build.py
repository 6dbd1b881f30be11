"""The cache of a small world, of one rank or several, with its watches and perhaps a fault."""

from collections.abc import Callable
from typing import NamedTuple

from cache.stores import StoreMaker, fingerprints
from cache.unified import UnifiedCache
from harness.explore.outcome import Scenario
from harness.faults import Fault
from harness.hunt.ranks import Tortured, ranks_in
from harness.hunt.scenario import config_of, configs_of
from harness.hunt.storage import IDENTITY, PAGE_BYTES, storage_of
from harness.oracles import Watch, WatchedRanks, default_oracles
from harness.oracles.ranks import OnOffers


class Built(NamedTuple):
    """`at_rest()` asks the oracles once more when nothing is in flight."""

    cache: Tortured
    at_rest: Callable[[], None]


def build(
    scenario: Scenario,
    watch: Watch,
    fault: Fault | None,
    *,
    without: tuple[str, ...] = (),
    store_of: StoreMaker = fingerprints,
    stored_bytes: int = PAGE_BYTES,
    on_offers: OnOffers,
) -> Built:
    """`watch` is the first rank's, not attached yet; `on_offers` is told what ranks offered each
    other; `stored_bytes` is what a page takes in storage at most."""
    if ranks_in(scenario) == 1:
        cache = UnifiedCache(
            config_of(scenario),
            watch,
            backend=storage_of(scenario, stored_bytes),
            identity=IDENTITY,
            store_of=store_of,
        )
        watch.attach(cache)
        if fault is not None:
            fault.put_into(cache)
        return Built(cache, watch.at_rest)
    ranks = WatchedRanks(
        configs_of(scenario),
        watch,
        lambda: default_oracles("every", without=without),
        backend=storage_of(scenario),
        identity=IDENTITY,
        without=without,
        on_offers=on_offers,
    )
    if fault is not None:  # before anybody looks at the pools, whose sizes it may change
        fault.put_into(ranks.cache)
    ranks.attach()
    return Built(ranks.cache, ranks.at_rest)
