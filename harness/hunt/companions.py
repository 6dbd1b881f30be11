"""Companions in the arena: what belongs to the slots of its small world, as plain data.

Invariant: whatever the knobs say, the pools of a companion let a request run.
"""

from dataclasses import replace

from cache.config import STATES_OF_A_REQUEST, CacheConfig, Companion, Component, PoolPages
from harness.explore.outcome import Scenario
from harness.explore.swarm import Feature, Knob, Number, Options

MARGIN = 3  # SWA slots beyond a window, for the chunk that is computed

COMPANION: dict[str, Knob] = {
    "owner": Options(("full", "swa", "mamba")),
    "own": Feature(0.5),  # it has slots of its own
    "apart": Feature(0.6),  # in storage it is an object of its own
    "fewer": Number(0, 3),  # slots of its own on the device, than its owner has
    "fewer_host": Number(0, 4),
}


def companions_of(scenario: Scenario, config: CacheConfig) -> tuple[Companion, ...]:
    """Those of a scenario; replay files from before there were any do not say. A component that is
    not there has none: then the companion is one of FULL."""
    if not scenario.get("accompanied", False):
        return ()
    companions = []
    for item in scenario["companions"]:
        owner = Component[item["owner"].upper()]
        if owner not in config.components:
            owner = Component.FULL
        companion = Companion(f"side{item['id']}", owner, apart=item["apart"])
        if item["own"]:
            companion = replace(companion, pools=_pools(config, owner, item))
        companions.append(companion)
    return tuple(companions)


def more_slots(pools: PoolPages, more: PoolPages) -> PoolPages:
    return PoolPages(pools.device + more.device, pools.host + more.host)


def _pools(config: CacheConfig, owner: Component, item: dict[str, int]) -> PoolPages:
    theirs = config.pools(owner)
    least = {Component.SWA: config.window_pages + MARGIN, Component.MAMBA: STATES_OF_A_REQUEST}.get(
        owner, 1
    )
    host = max(1, theirs.host - item["fewer_host"]) if theirs.host else 0
    return PoolPages(max(least, theirs.device - item["fewer"]), host)
