"""Whether this machine has the memory that the pools of a run ask for."""

from collections.abc import Mapping
from typing import NamedTuple

import psutil

from cache.config import CacheConfig, Component, Tier


class NoMemory(NamedTuple):
    """Why pools could not be had. `pool` is the first that was too much."""

    pool: str
    wanted_bytes: int
    reason: str

    def sentence(self) -> str:
        gib = self.wanted_bytes / 2**30
        return f"no memory for the {self.pool} pool of {gib:,.1f} GiB: {self.reason}"


def lacking_memory(
    config: CacheConfig, page_bytes: Mapping[Component, int], device: str
) -> NoMemory | None:
    """The first pool that this machine's free memory does not hold beside those before it, if
    there is one: the system would grant it, and end the process once it is used. What a GPU holds
    is known when it is asked."""
    free = psutil.virtual_memory().available
    for component in config.components:
        sizes = config.pools(component)
        for tier, capacity in ((Tier.DEVICE, sizes.device), (Tier.HOST, sizes.host)):
            wanted = capacity * page_bytes[component]
            if tier is Tier.DEVICE and device != "cpu":
                continue
            if wanted > free:
                reason = f"{free / 2**30:,.1f} GiB are free here"
                return NoMemory(f"{tier.name.lower()} {component.name}", wanted, reason)
            free -= wanted
    return None
