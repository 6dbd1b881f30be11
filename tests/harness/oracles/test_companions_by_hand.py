"""Companions led by the hand: what the oracle says of one that went astray."""

from collections.abc import Callable

import pytest

from cache.companions import OwnSlots
from cache.config import FULL, MAMBA, CacheConfig, Companion, PoolPages, Tier, WritePolicy
from cache.contract import Demand
from cache.pools import Owner
from harness.faults.fault import patch
from tests.harness.oracles.bench import PAGE, Bench

DEVICE, HOST = Tier
DRAFT = Companion("draft", FULL, pools=PoolPages(16, 16))
CONFIG = CacheConfig(
    page_size=PAGE,
    full=PoolPages(16, 16),
    mamba=PoolPages(4, 4),
    write_policy=WritePolicy.WRITE_THROUGH,
    companions=(Companion("scales", FULL), DRAFT, Companion("side", MAMBA)),
)


def served() -> Bench:
    """A prompt of two pages is on both tiers."""
    bench = Bench(CONFIG)
    bench.serve(bench.key(5))
    bench.drain()
    return bench


def own(bench: Bench, tier: Tier = DEVICE) -> OwnSlots:
    (found,) = (c for c in bench.cache.pools[tier, FULL].companions if isinstance(c, OwnSlots))
    return found


def slots(bench: Bench, tier: Tier = DEVICE) -> list[int]:
    return bench.node().slots[tier][FULL] or []


def load_back(bench: Bench) -> None:
    """Everything leaves the device, and a request brings it back and reads it."""
    bench.cache.make_room(Demand(16, 0, 4))
    key = bench.key(5, own=9)
    table = bench.admit(key)
    bench.drain()
    bench.compute(table, key)
    bench.cache.read(table, table.written)
    bench.cache.finish(table, key)


def test_a_sound_cache_is_not_objected_to():
    bench = served()
    load_back(bench)
    bench.drain()
    bench.watch.at_rest()
    assert bench.first == "nothing"


def test_it_watches_only_where_there_are_companions():
    assert "companions" not in {o.name for o in Bench().watch._oracles}
    assert "companions" in {o.name for o in served().watch._oracles}


HURTS: dict[str, tuple[str, Callable[[Bench], object]]] = {
    "a companion on the host that belongs to another page": (
        "C1 companion.copy.load-back.host_full.scales",
        lambda b: b.cache.pools[HOST, FULL].companions[0].write(slots(b, HOST)[:1], [7]),
    ),
    "a companion on the host that is empty": (
        "C2 companion.copy.load-back.host_full.draft",
        lambda b: own(b, HOST).forget(slots(b, HOST)),
    ),
    "a side state on the host that is another one's": (
        "C1 companion.copy.load-back.host_mamba.side",
        lambda b: (
            b.cache.pools[HOST, MAMBA].companions[0].write(b.node().slots[HOST][MAMBA] or [], [7])
        ),
    ),
    "a page that has lost its companion": (
        "M1 companion.match.host_full_draft",
        lambda b: own(b, HOST).leave(slots(b, HOST)[:1], Owner.NODE),
    ),
}


@pytest.mark.parametrize(("first", "hurt"), HURTS.values(), ids=HURTS)
def test_what_went_astray_is_seen_when_it_is_used(first: str, hurt: Callable[[Bench], object]):
    bench = served()
    hurt(bench)
    try:
        load_back(bench)
    except AssertionError:
        assert bench.first != "nothing", "the oracle speaks before the cache does"
    assert bench.first == first


@pytest.mark.parametrize(("first", "hurt"), HURTS.values(), ids=HURTS)
def test_and_by_the_next_audit_if_nobody_uses_it(first: str, hurt: Callable[[Bench], object]):
    bench = served()
    hurt(bench)
    bench.watch.audit()
    assert any("companion" in violation.signature for violation in bench.found)


def test_a_read_without_a_companion_is_seen():
    bench = served()
    bench.cache._read_companions = lambda slots: ()  # type: ignore[method-assign]
    load_back(bench)
    assert bench.first == "M1 companion.read"


def test_companions_in_other_hands_than_their_owners_are_seen():
    bench = served()
    own(bench).move(slots(bench), Owner.NODE, Owner.COPY)
    bench.watch.audit()
    assert bench.first == "O1 companion.device_full_draft"


def test_a_companion_that_is_kept_when_its_owner_goes_is_seen():
    bench = served()
    beside = own(bench)
    patch(beside.pool, "release", lambda original, slots, owner: original(slots[1:], owner))
    bench.cache.make_room(Demand(16))
    assert bench.first == "O2 companion.total.device_full_draft"
