"""The canary: a defect that any harness with open eyes finds at once."""

from typing import Any

from cache.config import Component, Tier
from cache.unified import UnifiedCache
from harness.faults.fault import Family, patch

family = Family("canary")


@family.fault("M1", "C1")
def canary(cache: UnifiedCache) -> None:
    """Every finished prompt's first page is overwritten.

    If this is not found in the first few schedules, nothing else that a run says is worth reading.
    """

    def finish(original: Any, table: Any, key: Any) -> Any:
        slots = table.full[:1]
        result = original(table, key)
        if slots:
            cache.pools[Tier.DEVICE, Component.FULL].store.write(slots, [1])
        return result

    patch(cache, "finish", finish)
