"""The audit can fail: each of its checks sees a cache that was broken by hand, and nothing else
than a broken one."""

from collections.abc import Callable

import pytest

from cache import audit as audits
from cache.audit import CHECKS, Finding, audit
from cache.config import Component, Tier, WritePolicy
from cache.contract import Demand
from cache.transfers import Copy
from cache.tree import Node
from cache.unified import UnifiedCache
from tests.cache.audit_companion_breaks import COMPANION_BREAKS, accompanied
from tests.cache.audit_storage_breaks import STORAGE_BREAKS, persisting
from tests.cache.builders import a_cache, a_key, admit, compute, demote, land, node_at, serve

FULL, SWA = Component.FULL, Component.SWA
DEVICE, HOST = Tier.DEVICE, Tier.HOST

Break = Callable[[UnifiedCache], object]


def busy() -> UnifiedCache:
    """[1 2] on both tiers, [1 2 3] on its way to the device, [1 2 4] on its way to the host, and a
    running request with two pages of its own."""
    cache = a_cache(full=(12, 12), swa=(8, 8), window=4)
    for text in ([1, 2], [1, 2, 3]):
        serve(cache, a_key(text))
        land(cache)
    demote(cache)
    serve(cache, a_key([1, 2]))
    admit(cache, a_key([1, 2, 3]), "loading")
    serve(cache, a_key([1, 2, 4]))
    running = admit(cache, a_key([7, 8]), "running")
    compute(cache, running, a_key([7, 8]), 4)
    return cache


def upper(cache: UnifiedCache) -> Node:
    return node_at(cache, [1, 2])


def loading(cache: UnifiedCache) -> Copy:
    return cache.transfers.queues[DEVICE][0]


def backing_up(cache: UnifiedCache) -> Copy:
    return cache.transfers.queues[HOST][0]


def resting(cache: UnifiedCache) -> Node:
    """A node that may be evicted from the device: nobody holds it."""
    serve(cache, a_key([9]))
    land(cache)
    return node_at(cache, [9])


def strip(node: Node, tier: Tier, component: Component) -> None:
    node.slots[tier][component] = None


BREAKS: dict[str, tuple[str, str, Callable, Break]] = {
    "a child that points at another parent": (
        "S1",
        "parent",
        audits.structure_chains,
        lambda c: setattr(node_at(c, [1, 2, 4]), "parent", node_at(c, [1, 2, 3])),
    ),
    "a gap between a node and its child": (
        "S1",
        "position",
        audits.structure_chains,
        lambda c: setattr(node_at(c, [1, 2, 4]), "start", 2),
    ),
    "an edge that is longer than its node": (
        "S1",
        "edge",
        audits.structure_chains,
        lambda c: setattr(upper(c), "edge", upper(c).edge + b"more"),
    ),
    "a node without FULL anywhere": (
        "S2",
        "dead",
        audits.structure_dead,
        lambda c: [strip(upper(c), tier, FULL) for tier in Tier],
    ),
    "a window on the device without its FULL": (
        "S3",
        "device_swa",
        audits.structure_components,
        lambda c: strip(upper(c), DEVICE, FULL),
    ),
    "a window on the host without its FULL": (
        "S3",
        "host_swa",
        audits.structure_components,
        lambda c: strip(upper(c), HOST, FULL),
    ),
    "fewer slots than pages": (
        "S3",
        "pages",
        audits.structure_components,
        lambda c: upper(c).slots[DEVICE][FULL].pop(),
    ),
    "a copy into slots that are not there": (
        "S3",
        "filling",
        audits.structure_components,
        lambda c: strip(loading(c).parts[-1].node, DEVICE, SWA),
    ),
    "a child on the device below a parent that is not": (
        "S4",
        "closure",
        audits.structure_closure,
        lambda c: strip(upper(c), DEVICE, FULL),
    ),
    "a child on the host below a parent that is not": (
        "S5",
        "closure",
        audits.structure_closure,
        lambda c: strip(upper(c), HOST, FULL),
    ),
    "a child that was not counted": (
        "S6",
        "kids.device",
        audits.structure_ledgers,
        lambda c: upper(c).kids.__setitem__(DEVICE, 1),
    ),
    "a victim that nobody listed": (
        "S6",
        "victims.device_full",
        audits.structure_ledgers,
        lambda c: c.residency.victims[DEVICE, FULL].withdraw(resting(c)),
    ),
    "a locked node among the victims": (
        "S6",
        "victims.device_full",
        audits.structure_ledgers,
        lambda c: c.residency.victims[DEVICE, FULL].offer(upper(c)),
    ),
    "a victim whose rank is an old one": (
        "S6",
        "order.device_full",
        audits.structure_ledgers,
        lambda c: resting(c).used.__setitem__(FULL, 0),
    ),
    "a wrong count of what nodes hold": (
        "S6",
        "held.host_swa",
        audits.structure_ledgers,
        lambda c: c.residency.held_pages.__setitem__((HOST, SWA), 99),
    ),
    "a wrong count of what is locked": (
        "S6",
        "locked.device_full",
        audits.structure_ledgers,
        lambda c: c.residency.locked_pages.__setitem__((DEVICE, FULL), 0),
    ),
    "a node that leaves and that nobody remembers": (
        "S6",
        "leaving",
        audits.structure_leaving,
        lambda c: setattr(upper(c), "leaving", (FULL,)),
    ),
    "a slot of a node that its pool calls a request's": (
        "O1",
        "owner.device_full",
        audits.ownership,
        lambda c: c.pools[DEVICE, FULL]._owner.__setitem__(upper(c).slots[DEVICE][FULL][0], 2),
    ),
    "a slot that is free and in use": (
        "O1",
        "owner.device_swa",
        audits.ownership,
        lambda c: c.pools[DEVICE, SWA]._free.append(upper(c).slots[DEVICE][SWA][0]),
    ),
    "a slot that nobody remembers": (
        "O2",
        "total.device_full",
        audits.ownership,
        lambda c: next(t for t in c.tables.values() if t.holder == "running").full.pop(),
    ),
    "a slot in the free list twice": (
        "O2",
        "total.host_full",
        audits.ownership,
        lambda c: c.pools[HOST, FULL]._free.append(c.pools[HOST, FULL]._free[0]),
    ),
    "a window that the map has lost": (
        "O3",
        "map",
        audits.slot_map,
        lambda c: c.residency.map.unbind(upper(c).slots[DEVICE][FULL][:1]),
    ),
    "an entry of the map that has outlived its page": (
        "O3",
        "map",
        audits.slot_map,
        lambda c: c.residency.map.bind(c.pools[DEVICE, FULL].free_list()[:1], [7]),
    ),
    "two pages with one window": (
        "O3",
        "injective",
        audits.slot_map,
        lambda c: c.residency.map.bind(
            c.pools[DEVICE, FULL].free_list()[:1], upper(c).slots[DEVICE][SWA][:1]
        ),
    ),
    "a count that no receipt stands for": (
        "L1",
        "count.host_full",
        audits.lock_counts,
        lambda c: upper(c).locks[HOST].__setitem__(FULL, 7),
    ),
    "a page that holds another prefix": (
        "C1",
        "node.device_swa",
        audits.content,
        lambda c: c.pools[DEVICE, SWA].store.write(upper(c).slots[DEVICE][SWA][:1], [12345]),
    ),
    "a page that was never written": (
        "C2",
        "node.host_full",
        audits.content,
        lambda c: c.pools[HOST, FULL].store.forget(upper(c).slots[HOST][FULL]),
    ),
    "a copy whose lock has gone": (
        "D1",
        "lock.backup",
        audits.copies,
        lambda c: c.locks.release(backing_up(c).lock),
    ),
    "a target that was given to another": (
        "D1",
        "target.load-back",
        audits.copies,
        lambda c: loading(c).parts[0].node.slots[DEVICE].__setitem__(FULL, [11]),
    ),
    "a source that was given up": (
        "D1",
        "source.backup",
        audits.copies,
        lambda c: strip(backing_up(c).parts[0].node, DEVICE, FULL),
    ),
    "a node that waits for a copy that is not in flight": (
        "D2",
        "orphan",
        audits.copies,
        lambda c: c.transfers.queues[DEVICE].clear(),
    ),
}


@pytest.mark.parametrize(("oracle", "signature", "check", "hurt"), BREAKS.values(), ids=BREAKS)
def test_the_audit_sees(oracle, signature, check, hurt):
    cache = busy()
    assert audit(cache) == []
    hurt(cache)
    findings = [(f.oracle, f.signature) for f in check(cache)]
    assert (oracle, signature) in findings
    assert findings[0] in [(f.oracle, f.signature) for f in audit(cache)]


@pytest.mark.parametrize(
    ("oracle", "signature", "check", "hurt"), STORAGE_BREAKS.values(), ids=STORAGE_BREAKS
)
def test_the_audit_sees_on_the_way_to_and_from_storage(oracle, signature, check, hurt):
    cache = persisting()
    assert audit(cache) == []
    hurt(cache)
    assert (oracle, signature) in [(f.oracle, f.signature) for f in check(cache)]


@pytest.mark.parametrize(
    ("oracle", "signature", "check", "hurt"), COMPANION_BREAKS.values(), ids=COMPANION_BREAKS
)
def test_the_audit_sees_beside_the_pages(oracle, signature, check, hurt):
    cache = accompanied()
    assert audit(cache) == []
    hurt(cache)
    assert (oracle, signature) in [(f.oracle, f.signature) for f in check(cache)]


def test_every_check_and_every_oracle_has_been_seen_to_fail():
    seen = [*BREAKS.values(), *STORAGE_BREAKS.values(), *COMPANION_BREAKS.values()]
    assert {check for _, _, check, _ in seen} == set(CHECKS)
    assert {oracle for oracle, _, _, _ in BREAKS.values()} == {
        *("S1", "S2", "S3", "S4", "S5", "S6"),
        *("O1", "O2", "O3", "L1", "C1", "C2", "D1", "D2"),
    }


def test_a_finding_says_what_was_expected_and_seen_where():
    cache = busy()
    upper(cache).locks[HOST][SWA] += 1
    (finding,) = audits.lock_counts(cache)
    assert finding == Finding("L1", "count.host_swa", f"1 on {upper(cache)}", "2")


def test_an_audit_changes_nothing():
    cache = busy()
    audit(cache)
    for table in list(cache.tables.values()):
        land(cache)
        cache.abort(table)
    assert cache.flush()


def test_under_write_back_the_host_may_have_a_child_without_its_parent():
    cache = a_cache(full=(4, 4), policy=WritePolicy.WRITE_BACK)
    serve(cache, a_key([1, 2]))
    serve(cache, a_key([1]))
    cache.make_room(Demand(3))
    land(cache)
    assert node_at(cache, [1, 2]).slots[HOST][FULL] is not None
    assert node_at(cache, [1]).slots[HOST][FULL] is None
    assert audit(cache) == []
