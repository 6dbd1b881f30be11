"""Ways to break what belongs to slots; see test_audit."""

from cache import audit as audits
from cache.companions import CompanionSlots, OwnSlots
from cache.config import Companion, Component, PoolPages, Tier
from cache.pools import Owner
from cache.unified import UnifiedCache
from tests.cache.builders import a_cache, a_key, land, node_at, serve

FULL, HOST, DEVICE = Component.FULL, Tier.HOST, Tier.DEVICE
SCALES = Companion("scales", FULL)
DRAFT = Companion("draft", FULL, pools=PoolPages(9, 9))


def accompanied() -> UnifiedCache:
    """[1 2] on both tiers, each page with scales and a page of a draft model."""
    cache = a_cache(full=(8, 8), companions=(SCALES, DRAFT))
    serve(cache, a_key([1, 2]))
    land(cache)
    return cache


def beside(cache: UnifiedCache, tier: Tier, name: str) -> CompanionSlots:
    return next(c for c in cache.pools[tier, FULL].companions if c.name == name)


def own(cache: UnifiedCache, tier: Tier = DEVICE) -> OwnSlots:
    found = beside(cache, tier, "draft")
    assert isinstance(found, OwnSlots)
    return found


def slots(cache: UnifiedCache, tier: Tier = DEVICE) -> list[int]:
    return node_at(cache, [1, 2]).slots[tier][FULL] or []


COMPANION_BREAKS = {
    "a page that has lost its companion": (
        "O3",
        "companion.device_full_draft",
        audits.companions,
        lambda c: own(c).leave(slots(c)[:1], Owner.NODE),
    ),
    "a companion in the hands of another": (
        "O1",
        "companion.device_full_draft",
        audits.companions,
        lambda c: own(c).move(slots(c)[:1], Owner.NODE, Owner.COPY),
    ),
    "a companion that outlives its page": (
        "O2",
        "companion.host_full_draft",
        audits.companions,
        lambda c: own(c, HOST).pool.allocate(1, Owner.NODE),
    ),
    "two pages with one companion": (
        "O3",
        "companion.twice.device_full_draft",
        audits.companions,
        lambda c: own(c)._slots.__setitem__(slots(c)[0], own(c).of(slots(c))[1]),
    ),
    "a companion of another page": (
        "C1",
        "node.host_full.scales",
        audits.companion_content,
        lambda c: beside(c, HOST, "scales").write(slots(c, HOST)[:1], [12345]),
    ),
    "a companion that was never written": (
        "C2",
        "node.device_full.draft",
        audits.companion_content,
        lambda c: beside(c, DEVICE, "draft").forget(slots(c)),
    ),
}
