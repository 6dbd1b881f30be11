"""Ranks in the arena: every rank has copy streams of its own, which run and fail when they like.

    h2d d2h        the streams of the first rank
    h2d1 d2h1 ...  those of the others
    storage1 ...   storage's replies to the others (`harness.hunt.storage`)

Nothing here draws from the tape in a world with one rank.
"""

from cache.config import Tier
from cache.ranks import RankedCache
from cache.unified import UnifiedCache
from harness.explore.outcome import Scenario
from harness.explore.swarm import Feature, Knob, Number

STREAMS = {Tier.DEVICE: "h2d", Tier.HOST: "d2h"}
RANKS: dict[str, Knob] = {
    "others": Number(1, 2),  # ranks beside the first
    "spare": Number(0, 3),  # pages that each pool of theirs has more than the first one's
    "shut": Feature(0.5),  # a pool of one rank may give nothing for a while
}
Tortured = UnifiedCache | RankedCache


def ranks_in(scenario: Scenario) -> int:
    """How many ranks a world has."""
    if not scenario.get("ranks"):
        return 1
    return int(1 + scenario["ranks"][0]["others"])


def may_shut(scenario: Scenario) -> bool:
    """Whether pools of one rank alone may be shut; replay files from before could not say."""
    return bool(scenario.get("ranks") and scenario["ranks"][0].get("shut", False))


def spare_pages(scenario: Scenario, rank: int) -> int:
    """What a rank's pools have more than the first rank's."""
    return int(scenario["ranks"][0]["spare"]) if rank else 0


def stream_name(tier: Tier, rank: int) -> str:
    return f"{STREAMS[tier]}{rank or ''}"
