"""The oracles: what must hold, checked while it happens.

    watch = Watch(default_oracles("every"), on_violation=found.append)
    cache = UnifiedCache(config, watch)
    watch.attach(cache)
    ...                      # torture it
    watch.at_rest()

An oracle is one file: a family of promises with one class, named in `FAMILIES`.
"""

from collections.abc import Collection
from typing import Literal

from harness.oracles.backups import Backups
from harness.oracles.base import Oracle
from harness.oracles.companions import Companions
from harness.oracles.content import Content
from harness.oracles.copies import Copies
from harness.oracles.events import Events
from harness.oracles.host import Host
from harness.oracles.locks import Locks
from harness.oracles.ownership import Ownership
from harness.oracles.persists import Persists
from harness.oracles.prefetches import Prefetches
from harness.oracles.progress import Progress
from harness.oracles.ranks import Ranks
from harness.oracles.service import Service
from harness.oracles.slot_map import MapOracle
from harness.oracles.structure import Structure
from harness.oracles.violation import Violation, raised_by_cache, violation_of
from harness.oracles.watch import Watch
from harness.oracles.watched_ranks import WatchedRanks

__all__ = [
    "FAMILIES",
    "NAMES",
    "Oracle",
    "Ranks",
    "Violation",
    "Watch",
    "WatchedRanks",
    "default_oracles",
    "raised_by_cache",
    "violation_of",
]

# In the order in which they hear of an event: where several speak, the most telling speaks first.
FAMILIES: tuple[type[Oracle], ...] = (
    Events,
    Locks,
    Copies,
    Persists,
    Prefetches,
    Service,
    Content,
    Companions,
    MapOracle,
    Ownership,
    Structure,
    Backups,
    Host,
    Progress,
)
NAMES = (*(family.name for family in FAMILIES), Ranks.name)  # the last one's is between caches
CREDITS = {"every": 2_048, "sampled": 4}


def default_oracles(
    mode: Literal["every", "sampled", "off"], *, without: Collection[str] = ()
) -> list[Oracle]:
    """Fresh oracles, those named in `without` left out.

    Both modes hear every event; `sampled` also lets scans of many nodes (for the order of victims,
    for what is left to evict) be skipped oftener."""
    if strangers := sorted(set(without) - set(NAMES)):
        raise ValueError(f"no oracle {', '.join(strangers)}; there are {', '.join(sorted(NAMES))}")
    if mode == "off":
        return []
    return [family(credit=CREDITS[mode]) for family in FAMILIES if family.name not in without]
