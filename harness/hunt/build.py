"""The cache of a small world, of one rank or several, with its watches and perhaps a fault."""

from collections.abc import Callable
from dataclasses import dataclass

from cache.ranks import RankedCache
from cache.unified import UnifiedCache
from harness.explore.outcome import Scenario
from harness.faults import Fault
from harness.hunt.ranks import Tortured, ranks_in
from harness.hunt.scenario import config_of, configs_of
from harness.hunt.storage import IDENTITY, storage_of
from harness.oracles import Ranks, Violation, Watch, default_oracles


@dataclass(frozen=True, slots=True)
class Built:
    """`watches` are one for each rank; the first reports for all of them."""

    cache: Tortured
    watches: list[Watch]
    ranks: Ranks | None  # what watches between ranks, where there are several

    def at_rest(self) -> None:
        """All requests have ended and nothing is in flight."""
        if self.ranks is not None:
            self.ranks.at_rest(self.cache.ranks)
        for watch in self.watches:
            watch.at_rest()


def build(
    scenario: Scenario,
    watch: Watch,
    fault: Fault | None,
    *,
    without: tuple[str, ...] = (),
    on_offers: Callable[[str, list[int]], None],
) -> Built:
    """`watch` is the first rank's, not attached yet; `on_offers` is told what ranks offered each
    other."""
    if ranks_in(scenario) == 1:
        cache = UnifiedCache(
            config_of(scenario), watch, backend=storage_of(scenario), identity=IDENTITY
        )
        watch.attach(cache)
        if fault is not None:
            fault.put_into(cache)
        return Built(cache, [watch], None)
    between = Ranks(ranks_in(scenario), watch.report, on_offers=on_offers)
    watch.listen(between.journals[0])

    def relay(seen: Violation) -> None:
        watch.report(seen.oracle, seen.signature, seen.expected, seen.seen)

    watches = [watch]
    for journal in between.journals[1:]:
        oracles = default_oracles("every", without=without)
        watches.append(Watch(oracles, listeners=[journal], on_violation=relay))
    configs = configs_of(scenario)
    ranked = RankedCache(
        [UnifiedCache(config, own) for config, own in zip(configs, watches, strict=True)], between
    )
    if fault is not None:  # before anybody looks at the pools, whose sizes it may change
        fault.put_into(ranked)
    for rank, own in zip(ranked.ranks, watches, strict=True):
        own.attach(rank)
    return Built(ranked, watches, between)
