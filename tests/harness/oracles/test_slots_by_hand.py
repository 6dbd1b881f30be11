"""Ownership, map, locks, content and copies: a sound cache is broken by hand, and the oracle in
charge says so."""

import pytest

from cache.config import Component, Tier
from cache.contract import BrokenInvariant, Demand, LoadBack, LoadOutcome, Room
from cache.pools import Owner
from cache.transfers import CopyState
from tests.harness.oracles.bench import (
    TIERED,
    WINDOWED,
    Bench,
    flying_backup,
    flying_load_back,
)
from tests.harness.oracles.patching import unchecked

DEVICE, HOST = Tier.DEVICE, Tier.HOST
FULL, SWA = Component.FULL, Component.SWA


def test_nothing_is_said_about_a_sound_run():
    bench = Bench(TIERED, audit_every=1)
    for own in (0, 501, 502, 0):
        bench.serve(bench.key(9, own))
        bench.cache.make_room(Demand(14, 10))
        bench.drain()
    bench.watch.at_rest()
    assert bench.found == []


# -- O: ownership ----------------------------------------------------------------------------------


def test_a_slot_freed_twice_is_seen_at_once():
    bench = Bench()
    table = bench.admit(bench.key(6))
    bench.compute(table, bench.key(6))
    with unchecked(bench.cache.pools[DEVICE, FULL]):
        bench.cache.pools[DEVICE, FULL].release([table.full[0]] * 2, Owner.REQUEST)
    assert bench.first == "O1 release.device_full.twice"


def test_a_free_slot_that_is_freed_again_is_seen():
    bench = Bench()
    with unchecked(bench.cache.pools[DEVICE, FULL]):
        bench.cache.pools[DEVICE, FULL].release([3], Owner.NODE)
    assert bench.first == "O1 release.device_full.free"


def test_a_slot_of_somebody_else_that_is_given_up_is_seen():
    bench = Bench()
    mine = bench.admit(bench.key(4), "A")
    bench.compute(mine, bench.key(4))
    other = bench.admit(bench.key(4, 501), "B")
    bench.compute(other, bench.key(4, 501))
    bench.cache.pools[DEVICE, FULL].release([mine.full[0], other.full[0]], Owner.REQUEST)
    assert bench.first == "O1 release.device_full.mixed"


def test_a_slot_that_is_used_is_not_given_out_again():
    bench = Bench()
    bench.serve(bench.key(6))
    pool = bench.cache.pools[DEVICE, FULL]
    pool._free[-1] = bench.node().slots[DEVICE][FULL][0]
    with unchecked(pool):
        pool.allocate(1, Owner.REQUEST)
    assert bench.first == "O1 allocate.device_full"


def test_a_slot_of_a_request_that_is_lost_is_seen_at_the_commit():
    bench = Bench()
    key = bench.key(7)
    table = bench.admit(key)
    bench.compute(table, key)
    table.full.pop()
    bench.cache.commit(table, key)
    assert bench.first == "O1 request.kept.full"


def test_free_slots_that_do_not_add_up_are_seen():
    bench = Bench()
    bench.cache.pools[DEVICE, FULL]._free.pop(0)
    bench.cache.extend(bench.admit(bench.key(4)), 4)
    assert bench.first == "O2 total.device_full"


def test_an_allocation_that_nobody_claims_is_seen():
    bench = Bench()
    bench.cache.pools[DEVICE, FULL].allocate(1, Owner.REQUEST)
    bench.admit(bench.key(4))
    assert bench.first == "O1 unclaimed.device_full"


# -- O3: the map -----------------------------------------------------------------------------------


def test_a_map_entry_that_outlives_its_window_is_seen():
    bench = Bench(WINDOWED)
    bench.serve(bench.key(4))
    node = bench.node()
    swa, node.slots[DEVICE][SWA] = node.slots[DEVICE][SWA], None
    bench.cache.pools[DEVICE, SWA].release(swa, Owner.NODE)
    assert bench.first == "O3 release.stale"


def test_two_pages_with_one_window_slot_are_seen():
    bench = Bench(WINDOWED)
    bench.serve(bench.key(4))
    slots, table = bench.node().slots[DEVICE][FULL], bench.cache.residency.map._swa
    table[slots[0]] = table[slots[1]]
    bench.watch.audit()
    assert "O3" in bench.oracles


def test_a_node_whose_map_entries_are_others_is_seen():
    bench = Bench(WINDOWED)
    key = bench.key(4)
    table = bench.admit(key)
    bench.compute(table, key)
    entries = bench.cache.residency.map._swa
    first, second = table.full
    entries[first], entries[second] = entries[second], entries[first]
    adopt = bench.cache.residency.adopt

    def adopt_and_swap(node, component, slots, full):
        adopt(node, component, slots, full)
        if component is SWA:
            entries[first], entries[second] = entries[second], entries[first]

    bench.cache.residency.adopt = adopt_and_swap
    bench.cache.commit(table, key)
    assert "O3 node.entries" in {f"{v.oracle} {v.signature}" for v in bench.found}


# -- L: locks --------------------------------------------------------------------------------------


def test_a_count_that_is_bumped_is_named_with_its_holders():
    bench = Bench()
    bench.serve(bench.key(6))
    table = bench.admit(bench.key(6), "A")
    bench.node().locks[DEVICE][FULL] += 1
    bench.cache.abort(table)
    assert bench.first == "L2 release.device_full"
    assert "nobody" in bench.found[0].expected


def test_a_release_that_steals_names_thief_and_victim():
    bench = Bench()
    bench.serve(bench.key(6))
    bench.admit(bench.key(6), "victim")
    thief = bench.admit(bench.key(6, 501), "thief")
    bench.node().locks[DEVICE][FULL] -= 1
    bench.cache.abort(thief)
    violation = bench.found[0]
    assert (violation.oracle, violation.signature) == ("L2", "release.device_full")
    assert "victim" in violation.expected
    assert "thief" in violation.seen


def test_a_value_that_goes_while_it_is_covered_is_seen():
    bench = Bench(WINDOWED)
    bench.serve(bench.key(5))
    bench.admit(bench.key(5), "A")
    bench.cache.residency.drop(bench.node(), DEVICE, SWA)
    assert bench.first == "L1 dropped.device_swa"
    assert "A (lock" in bench.found[0].expected


def test_a_receipt_handed_back_twice_is_seen():
    bench = Bench()
    lock = bench.cache.lock(bench.cache.match(bench.key(4)), "A.admission")
    bench.cache.unlock(lock)
    with pytest.raises(BrokenInvariant, match="L1"):
        bench.cache.unlock(lock)
    bench.watch.unlocked(lock)
    assert bench.first == "L1 release.twice"


def test_a_load_back_without_an_admission_lock_is_seen():
    bench = Bench(TIERED)
    bench.serve(bench.key(5))
    match = bench.cache.match(bench.key(5))
    nothing = Room((0, 0), (0, 0))
    bench.watch.loaded_back(match, LoadBack(LoadOutcome.NOTHING, (0, 0), None, nothing))
    assert bench.first == "L1 cover.admission"


def test_a_lock_that_is_held_at_rest_is_seen():
    bench = Bench()
    bench.cache.lock(bench.cache.match(bench.key(4)), "A.admission")
    bench.watch.at_rest()
    assert "L3" in bench.oracles


# -- C: content ------------------------------------------------------------------------------------


def test_a_fingerprint_that_is_overwritten_is_seen_when_it_is_read():
    bench = Bench()
    bench.serve(bench.key(7))
    table = bench.admit(bench.key(7))
    bench.cache.pools[DEVICE, FULL].store.write([table.full[1]], [99])
    bench.cache.read(table, 6)
    assert bench.first == "C1 read.full"


def test_a_page_that_was_never_written_is_seen_when_it_is_read():
    bench = Bench()
    key = bench.key(6)
    table = bench.admit(key)
    bench.cache.extend(table, 6)
    table.written = 6
    bench.cache.read(table, 6)
    assert bench.first == "C2 read.full"


def test_a_source_that_was_overwritten_is_seen_when_it_is_copied():
    bench = Bench(TIERED)
    table = bench.admit(bench.key(5))
    bench.compute(table, bench.key(5))
    bench.cache.finish(table, bench.key(5))
    bench.cache.pools[DEVICE, FULL].store.write(bench.node().slots[DEVICE][FULL][:1], [99])
    bench.drain()
    assert bench.first == "C1 copy.device_full"


def test_a_target_that_was_overwritten_is_seen_when_it_lands():
    bench = Bench(TIERED)
    table = bench.admit(bench.key(5))
    bench.compute(table, bench.key(5))
    bench.cache.finish(table, bench.key(5))
    copy = bench.cache.transfers.next_to_run(HOST)
    bench.cache.transfers.run(copy)
    bench.cache.pools[HOST, FULL].store.write(copy.parts[0].target[:1], [99])
    bench.cache.acknowledge(copy)
    assert bench.first == "C1 stored.host_full"


def test_a_write_into_a_page_of_the_tree_is_seen():
    bench = Bench()
    bench.serve(bench.key(6))
    table = bench.admit(bench.key(6, 501))
    bench.cache.extend(table, 8)
    table.full[-1] = table.full[0]
    bench.cache.write(table, bench.key(6, 501).prints(), 8)
    assert bench.first.startswith("C1 write.")


# -- D: copies -------------------------------------------------------------------------------------


def test_a_source_that_is_freed_under_its_copy_is_seen():
    bench = flying_backup()
    bench.cache.residency.drop(bench.node(), DEVICE, SWA)
    assert bench.first == "D1 release.source.device_swa"


def test_a_target_that_is_read_before_it_has_landed_is_seen():
    bench, match, lock = flying_load_back()
    table = bench.cache.settle(match, lock, "A")
    table.waits = []
    bench.cache.read(table, 4)
    assert "D1 read.early" in {f"{v.oracle} {v.signature}" for v in bench.found}


def test_a_copy_that_lands_before_it_ran_is_seen():
    bench = flying_backup()
    bench.cache.transfers.next_to_run(HOST).state = CopyState.RAN
    bench.cache.acknowledge(bench.cache.transfers.next_to_acknowledge(HOST))
    assert "D1" in bench.oracles
    assert "D2" in bench.oracles


def test_a_failed_copy_that_is_called_done_is_seen():
    bench = flying_backup()
    transfers = bench.cache.transfers
    copy = transfers.next_to_run(HOST)
    transfers.break_off(copy)
    copy.state = CopyState.RAN
    bench.cache.acknowledge(copy)
    assert "D2 done.unrun" in {f"{v.oracle} {v.signature}" for v in bench.found}


def test_a_copy_that_is_acknowledged_twice_is_seen():
    bench = flying_backup()
    copy = bench.cache.transfers.next_to_run(HOST)
    bench.drain()
    bench.watch.acknowledged(copy)
    assert bench.first == "D2 acknowledged.twice"


def test_a_copy_that_nobody_acknowledges_is_seen_at_rest():
    bench = flying_backup()
    bench.watch.at_rest()
    assert "D2 unacknowledged" in {f"{v.oracle} {v.signature}" for v in bench.found}
