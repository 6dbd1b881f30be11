"""Structure, service, progress and events: a sound cache is broken by hand, and the oracle in
charge says so."""

import pytest

from cache.config import CacheConfig, Component, PoolPages, Tier, WritePolicy
from cache.contract import Commit, Demand, LoadBack, LoadOutcome, Match, Room
from harness.oracles import default_oracles
from tests.harness.oracles.bench import (
    PAGE,
    PLAIN,
    TIERED,
    WINDOWED,
    Bench,
    flying_backup,
    flying_load_back,
)

DEVICE, HOST = Tier.DEVICE, Tier.HOST
FULL, SWA = Component.FULL, Component.SWA


# -- S: structure ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("oracle", "vandal"),
    [
        ("S1", lambda node: node.parent.children.clear()),
        ("S1", lambda node: setattr(node, "start", node.start + PAGE)),
        ("S2", lambda node: node.slots[DEVICE].__setitem__(FULL, None)),
        ("S3", lambda node: node.slots[DEVICE][FULL].pop()),
        ("S6", lambda node: node.locks[DEVICE].__setitem__(FULL, 0)),
    ],
)
def test_a_broken_node_is_seen_after_the_operation_that_changed_it(oracle, vandal):
    bench = Bench()
    key = bench.key(6)
    table = bench.admit(key)
    bench.compute(table, key)
    added = bench.watch.committed

    def break_it(table, result):
        vandal(bench.node())
        added(table, result)

    bench.watch.committed = break_it
    bench.cache.commit(table, key)
    assert oracle in bench.oracles


@pytest.mark.parametrize(("oracle", "tier"), [("S4", DEVICE), ("S5", HOST)])
def test_a_gap_above_a_value_is_seen(oracle, tier):
    bench = Bench(TIERED)
    bench.serve(bench.key(4))
    bench.serve(bench.key(4, 501))
    bench.drain()
    parent = bench.node()
    parent.slots[tier][FULL] = None
    bench.watch.audit()
    assert oracle in bench.oracles


# -- M: service ------------------------------------------------------------------------------------


def test_a_match_that_is_too_deep_is_unsound_and_one_too_shallow_incomplete():
    bench = Bench()
    bench.serve(bench.key(4))
    bench.serve(bench.key(4, 501))
    key, root = bench.key(4, 501).extended(b"\0\0\0\0"), bench.cache.tree.root
    right = bench.cache.match(key)
    bench.watch.matched(right._replace(device=root, anchor=root))
    assert bench.first == "M2 match.device"
    bench.found.clear()
    bench.watch.matched(Match(bench.key(5), right.device, right.anchor, (0,)))
    assert bench.first == "M1 match.device"


def test_a_load_back_that_brings_nothing_is_seen():
    bench = flying_backup()
    bench.drain()
    bench.cache.make_room(Demand(16, 12))
    match = bench.cache.match(bench.key(5))
    bench.cache.lock(match, "A.admission")
    nothing = Room((0, 0), (0, 0))
    bench.watch.loaded_back(match, LoadBack(LoadOutcome.NOTHING, (0, 0), None, nothing))
    assert bench.first == "M2 load.NOTHING"


def test_a_hit_that_was_promised_and_is_gone_is_seen():
    bench, match, lock = flying_load_back()
    for node in reversed(list(bench.cache.tree.nodes())):
        for component in (SWA, FULL):
            if node.slots[DEVICE][component]:
                bench.cache.residency.give_back(node, (DEVICE, component))
    bench.found.clear()
    bench.cache.settle(match, lock, "A")
    assert "M3 promise" in {f"{v.oracle} {v.signature}" for v in bench.found}


def test_a_hole_in_the_window_of_a_request_is_seen():
    bench = Bench(WINDOWED)
    key = bench.key(7)
    table = bench.admit(key)
    bench.compute(table, key)
    bench.cache.residency.map.unbind(table.full[-1:])
    table.full.append(table.full.pop())
    bench.cache.read(table, 4)
    assert bench.found == []
    bench.cache.residency.map.unbind(table.full[1:2])
    bench.cache.read(table, 4)
    assert bench.first == "M1 read.hole"


def test_a_commit_that_leaves_pages_out_is_seen():
    bench = Bench()
    table = bench.admit(bench.key(7))
    bench.compute(table, bench.key(7))
    bench.watch.committed(table, Commit(0, 0, 0, False))
    assert bench.first == "M2 commit.pages"


def test_a_used_node_that_is_not_backed_up_is_seen():
    bench = Bench(TIERED)
    bench.cache.backups.back_up = lambda node: None
    bench.serve(bench.key(5))
    assert bench.first == "M2 unkept"


def test_the_only_window_that_is_dropped_though_there_was_room_is_seen():
    bench = Bench(TIERED)
    bench.serve(bench.key(5))
    bench.drain()
    bench.cache.residency.drop(bench.node(), HOST, SWA)
    bench.watch.making_room(Demand(0, 12))
    bench.found.clear()  # the host was told to give it up for nothing, and that was seen
    bench.cache.residency.drop(bench.node(), DEVICE, SWA)
    assert bench.first == "M2 only_copy"


def test_a_victim_that_is_not_written_back_is_seen():
    config = CacheConfig(
        page_size=PAGE, full=PoolPages(16, 16), write_policy=WritePolicy.WRITE_BACK
    )
    bench = Bench(config)
    bench.serve(bench.key(6))
    bench.watch.making_room(Demand(16))
    bench.cache.residency.drop(bench.node(), DEVICE, FULL)
    assert bench.first == "M2 victim"


# -- P: progress -----------------------------------------------------------------------------------


def test_a_shortage_with_something_left_to_evict_is_seen():
    bench = Bench()
    bench.serve(bench.key(6))
    bench.watch.making_room(Demand(16))
    bench.watch.made_room(Demand(16), Room((3,), (0,)))
    assert bench.first == "P2 stuck.full"


def test_a_victim_beyond_the_shortfall_is_seen():
    bench = Bench()
    bench.serve(bench.key(6))
    bench.watch.making_room(Demand(2))
    bench.cache.residency.drop(bench.node(), DEVICE, FULL)
    assert bench.first == "P2 evicts.met"


def test_a_victim_out_of_order_is_seen():
    bench = Bench()
    bench.serve(bench.key(0, 501))
    bench.serve(bench.key(0, 502))
    bench.watch.making_room(Demand(15))
    bench.cache.residency.drop(bench.node(1), DEVICE, FULL)
    bench.watch.made_room(Demand(15), Room((0,), (0,)))
    assert bench.first == "S6 order"


def test_a_slot_that_is_missing_after_the_last_flush_is_seen():
    bench = Bench()
    bench.serve(bench.key(6))
    flush = bench.cache.flush

    def flush_and_lose():
        done = flush()
        bench.cache.pools[DEVICE, FULL]._free.pop()
        return done

    bench.cache.flush = flush_and_lose
    bench.watch.at_rest()
    assert bench.first == "P3 flush.device_full"


# -- E: events -------------------------------------------------------------------------------------


def test_an_event_that_is_forgotten_is_seen():
    bench = Bench()
    bench.cache.residency._became_ready = lambda node, tier, component: None
    bench.serve(bench.key(6))
    assert bench.first == "E1 unpublished.device_full"


def test_an_event_that_comes_twice_is_seen():
    bench = Bench()
    bench.serve(bench.key(6))
    bench.watch.stored(bench.node(), DEVICE, FULL)
    assert bench.first == "E1 stored.twice.device_full"


def test_a_page_that_is_taken_back_unseen_is_seen():
    bench = Bench(TIERED)
    bench.serve(bench.key(6))
    bench.watch.dropped(bench.node(), HOST, FULL)
    assert bench.first == "E1 removed.unseen.host_full"


# -- leaving oracles out -------------------------------------------------------------------------


def test_an_oracle_that_is_left_out_says_nothing_and_a_stranger_is_refused():
    names = [oracle.name for oracle in default_oracles("every")]
    assert [o.name for o in default_oracles("every", without=("locks",))] == [
        name for name in names if name != "locks"
    ]
    assert default_oracles("off") == []
    with pytest.raises(ValueError, match="no oracle lokcs; there are"):
        default_oracles("every", without=("lokcs",))


def test_every_oracle_says_what_it_promises():
    for oracle in default_oracles("every"):
        assert oracle.__doc__
        assert len(oracle.name) > 3
    assert PLAIN.components == (FULL,)
