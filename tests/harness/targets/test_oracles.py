"""The oracles over a release: silent where all is well, and each can be seen to fire."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.targets.sglang.device import Copy, Event, Stream
from harness.targets.sglang.oracles import Broken, Content, Copies, Ledger, Ownership, Structure
from harness.targets.sglang.view import View
from harness.targets.sglang.world import Row
from tests.harness.targets import fakes


def cached() -> tuple[Any, View, fakes.Node]:
    """A world with one node of two tokens, FULL in slots 1 and 2, SWA in slots 3 and 4."""
    world = fakes.world()
    node = fakes.Node([11, 12], world.cache.root_node).put([1, 2], [3, 4])
    allocator = world.pools.allocator
    fakes.take(allocator, [1, 2])
    fakes.take(allocator.swa_attn_allocator, [3, 4])
    allocator.full_to_swa_index_mapping[torch.tensor([1, 2])] = torch.tensor([3, 4])
    world.pools.full.k_buffer[0][torch.tensor([1, 2]), 0, 0] = torch.tensor([11, 12])
    world.pools.swa.k_buffer[0][torch.tensor([3, 4]), 0, 0] = torch.tensor([11, 12])
    return world, View(world.cache, world.pools), node


def row(start: int, slots: list[int], truth: list[int]) -> Row:
    made = Row("r0", start, start + 1, truth)
    made.full = torch.tensor(slots).numpy()
    made.swa = torch.tensor([slot + 2 for slot in slots]).numpy()
    return made


def test_all_is_quiet_where_all_is_well() -> None:
    world, view, _ = cached()
    for kind in (Ledger, Copies, Ownership, Content, Structure):
        oracle = kind(world, view)
        oracle.settled()
        oracle.at_rest()
        oracle.reads(row(2, [1, 2, 5], [11, 12, 13]))


def test_a_slot_that_is_cached_and_free_has_two_owners() -> None:
    world, view, _ = cached()
    world.pools.allocator.free_pages = torch.arange(1, fakes.SLOTS + 1)
    with pytest.raises(Broken, match=r"O1\.device-full: free and node"):
        Ownership(world, view).settled()


def test_a_slot_that_nobody_owns_is_a_leak_at_rest_only() -> None:
    world, view, _ = cached()
    fakes.take(world.pools.allocator, [5])
    Ownership(world, view).settled()
    with pytest.raises(Broken, match=r"O2\.device-full leaks"):
        Ownership(world, view).at_rest()


def test_a_running_request_whose_slots_are_free_is_told() -> None:
    world, view, _ = cached()
    world.live["r0"] = SimpleNamespace(
        req_pool_idx=1, cache_protected_len=2, swa_evicted_seqlen=0, kv_allocated_len=2
    )
    world.pools.rows.req_to_token[1, :2] = torch.tensor([1, 6])
    with pytest.raises(Broken, match=r"O1\.a running request's FULL slots are free"):
        Ownership(world, view).settled()


def test_a_map_that_leads_elsewhere_is_told() -> None:
    world, view, _ = cached()
    world.pools.allocator.full_to_swa_index_mapping[1] = 7
    with pytest.raises(Broken, match=r"O3\.the map does not lead"):
        Ownership(world, view).settled()


def test_the_model_must_not_read_foreign_tokens() -> None:
    world, view, _ = cached()
    world.pools.full.k_buffer[0][2, 0, 0] = 99
    with pytest.raises(Broken, match=r"C2.the model reads foreign full.*99"):
        Content(world, view).reads(row(2, [1, 2, 5], [11, 12, 13]))


def test_the_model_must_not_read_a_hole_in_the_window() -> None:
    world, view, _ = cached()
    hole = row(2, [1, 2, 5], [11, 12, 13])
    hole.swa[1] = 0
    with pytest.raises(Broken, match=r"C2\.the model reads a hole in the window"):
        Content(world, view).reads(hole)


def test_what_is_backed_up_must_be_the_prefix_it_stands_for() -> None:
    world, view, node = cached()
    node.component_data[0].host_value = torch.tensor([0, 1])
    with pytest.raises(Broken, match=r"C1\.foreign full is cached on the host"):
        Content(world, view).at_rest()


@pytest.mark.parametrize("to_host", [True, False])
def test_slots_of_a_copy_that_waits_must_not_be_free(to_host: bool) -> None:
    world, view, _ = cached()
    stream = Stream()
    stream.deferred = True
    copy = Copy("full", to_host, torch.tensor([0]), torch.tensor([5]))
    stream.issue("copy", lambda: None, copy)
    world.streams["d2h"] = stream
    with pytest.raises(Broken, match=r"D1\.the device slots"):
        Copies(world, view).settled()
    stream.run_next()
    Copies(world, view).settled()


def test_a_load_back_runs_after_the_batches_that_still_write_its_slots() -> None:
    world, view, _ = cached()
    loaded = Copy("full", False, torch.tensor([0]), torch.tensor([6]))
    world.in_flight = [SimpleNamespace(rows=[row(2, [1, 2, 5], [11, 12, 13])])]
    Copies(world, view).copies(loaded)
    world.in_flight.append(SimpleNamespace(rows=[row(1, [1, 6], [11, 12])]))
    with pytest.raises(Broken, match=r"D1\.a load-back runs before a batch"):
        Copies(world, view).copies(loaded)


def test_a_state_may_be_loaded_into_the_slot_of_a_request_whose_batch_waits_for_it() -> None:
    world, view, _ = cached()
    loads, landed = Stream(), Event()
    loads.deferred = True
    own, theirs = (Copy("mamba", False, torch.tensor([0]), torch.tensor([slot])) for slot in (4, 5))
    loads.issue("load", lambda: None, own)
    landed.record(loads)
    going_on = row(2, [1, 2, 5], [11, 12, 13])
    going_on.state = 4
    launch = SimpleNamespace(rows=[going_on], awaits=landed)
    world.in_flight = [launch]
    Copies(world, view).copies(own)
    loads.run_next()
    loads.issue("load", lambda: None, own)
    Copies(world, view).copies(theirs)
    with pytest.raises(Broken, match=r"D1\.a load-back runs before a batch.*mamba"):
        Copies(world, view).copies(own)


def test_a_child_on_the_device_needs_its_parent_there() -> None:
    world, view, node = cached()
    fakes.Node([13], node).put([5])
    node.put(None, None, host=[0, 1])
    with pytest.raises(Broken, match=r"S4\."):
        Structure(world, view).settled()


def test_a_node_with_nothing_anywhere_is_dead() -> None:
    world, view, node = cached()
    node.put(None)
    with pytest.raises(Broken, match=r"S2\.a dead node"):
        Structure(world, view).settled()


def test_a_backup_needs_its_parents_backup_except_under_write_back() -> None:
    world, view, node = cached()
    fakes.Node([13], node).put([5], None, host=[0])
    with pytest.raises(Broken, match=r"S5\."):
        Structure(world, view).settled()
    world.shape.policy = "write_back"
    Structure(world, view).settled()


class Requests:
    """Acquires and releases under the names that releases use."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache

    def _req_inc_lock_ref(self, req: Any, node: Any) -> None:
        self.cache.inc_lock_ref(node)

    def cache_finished_req(self, req: Any, node: Any) -> None:
        self.cache.dec_lock_ref(node)

    def loading_check(self, node: Any) -> None:
        self.cache.dec_lock_ref(node)


def test_the_ledger_knows_the_holder_by_the_function_that_asks() -> None:
    world, view, node = cached()
    ledger, req = Ledger(world, view), SimpleNamespace(rid="r1")
    requests = Requests(world.cache)
    requests._req_inc_lock_ref(req, node)
    view.forget()
    assert list(ledger.receipts) == [("request", "r1")]
    ledger.settled()
    with pytest.raises(Broken, match=r"L3\.request never released"):
        ledger.at_rest()
    requests.cache_finished_req(req, node)
    view.forget()
    ledger.at_rest()


def test_a_release_without_an_acquire_is_told() -> None:
    world, view, node = cached()
    Ledger(world, view)
    with pytest.raises(Broken, match=r"L2\.load releases what it never acquired"):
        Requests(world.cache).loading_check(node)


def test_a_release_that_takes_another_holders_count_is_told_with_who_is_robbed() -> None:
    world, view, node = cached()
    ledger, requests = Ledger(world, view), Requests(world.cache)
    requests._req_inc_lock_ref(SimpleNamespace(rid="r1"), node)
    requests._req_inc_lock_ref(SimpleNamespace(rid="r2"), node)
    ledger.receipts["request", "r1"][0].given.clear()  # r1 met a tombstone and was given nothing
    with pytest.raises(Broken, match=r"L2.request takes full that it was not given.*request r2"):
        requests.cache_finished_req(SimpleNamespace(rid="r1"), node)


def test_both_halves_of_a_split_keep_their_holders() -> None:
    world, view, node = cached()
    ledger, requests = Ledger(world, view), Requests(world.cache)
    requests._req_inc_lock_ref(SimpleNamespace(rid="r1"), node)
    world.cache._split_node(node.key, node, 1)
    view.forget()
    ledger.settled()
    requests.cache_finished_req(SimpleNamespace(rid="r1"), node)
    view.forget()
    ledger.at_rest()


def test_counts_that_drift_are_told() -> None:
    world, view, node = cached()
    ledger = Ledger(world, view)
    node.component_data[0].lock_ref = 1
    view.forget()
    with pytest.raises(Broken, match=r"L1\.full lock counts drift"):
        ledger.settled()
