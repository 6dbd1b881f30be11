"""What the oracles say of storage: each of it can be seen to fire."""

from typing import Any

import numpy as np
import pytest
import torch

from harness.targets.sglang.marks import Marks
from harness.targets.sglang.oracles import Broken, Content, Copies, HostLedger, Ownership
from harness.targets.sglang.storage import Page
from harness.targets.sglang.view import View
from tests.harness.targets import fakes


def kept() -> tuple[Any, View, fakes.Node]:
    """A world with one node of two tokens that is in host slots 1 and 2 only."""
    world = fakes.with_storage(fakes.world())
    node = fakes.Node([11, 12], world.cache.root_node).put(None, host=[1, 2])
    host = world.cache.full_kv_pool_host
    host.free_slots = torch.tensor([0, 5, 6, 7])
    world.cache.swa_kv_pool_host = fakes.pool()
    return world, View(world.cache, world.pools), node


def page(world: Any, slots: list[int], *, fills: bool) -> Page:
    return Page(world.cache.full_kv_pool_host, np.array(slots), fills)


def test_all_is_quiet_where_all_is_well() -> None:
    world, view, _ = kept()
    fakes.prefetch(world, [3, 4], 1)
    for kind in (HostLedger, Copies, Ownership, Content):
        oracle = kind(world, view)
        oracle.settled()
        oracle.pages(page(world, [1, 2], fills=False))
        oracle.pages(page(world, [3, 4], fills=True))


@pytest.mark.parametrize("fills", [True, False])
def test_host_slots_that_storage_moves_must_not_be_free(fills: bool) -> None:
    world, view, _ = kept()
    with pytest.raises(Broken, match=r"D1\.the host slots of a .* are free before it has run"):
        Copies(world, view).pages(page(world, [5], fills=fills))


def test_a_prefetch_must_not_fill_what_is_cached() -> None:
    world, view, _ = kept()
    with pytest.raises(Broken, match=r"D1\.a prefetch fills host slots that are cached"):
        Copies(world, view).pages(page(world, [2, 3], fills=True))


def test_what_a_prefetch_holds_is_not_free() -> None:
    world, view, _ = kept()
    operation = fakes.prefetch(world, [3, 5], 1)
    Ownership(world, view).settled()
    operation.completed_tokens = 2
    with pytest.raises(Broken, match=r"O1\.host-full: free and prefetch"):
        Ownership(world, view).settled()


def test_all_that_a_prefetch_has_yet_to_read_is_its_own() -> None:
    world, view, _ = kept()
    operation = fakes.prefetch(world, [2, 3], 0)
    Ownership(world, view).settled()
    world.cache.cache_controller.prefetch_buffer.queue.append(operation)
    with pytest.raises(Broken, match=r"O1\.host-full: node and prefetch"):
        Ownership(world, view).settled()


def test_what_is_given_back_twice_is_told() -> None:
    world, view, _ = kept()
    queue = world.cache.cache_controller.host_mem_release_queue.queue
    queue += [torch.tensor([3]), torch.tensor([4])]
    Ownership(world, view).settled()
    queue.append(torch.tensor([3]))
    with pytest.raises(Broken, match=r"O1\.host-full: given back and given back"):
        Ownership(world, view).settled()


def test_a_key_names_the_prefix_that_is_stored_under_it() -> None:
    world, view, _ = kept()
    world.background.truth["a1"] = np.array([11, 12])
    oracle = Content(world, view)
    oracle.kept("a1", np.array([11, 12]))
    oracle.kept("a1.swa", np.array([11, 12]))
    oracle.kept("a1.mamba", np.array([12]))
    with pytest.raises(Broken, match=r"C1\.storage is given foreign full"):
        oracle.kept("a1", np.array([11, 0]))
    with pytest.raises(Broken, match=r"C1\.storage is given full under a key of no prefix"):
        oracle.kept("b2", np.array([11, 12]))


def test_host_locks_are_handed_back_to_the_last() -> None:
    world, view, node = kept()
    ledger = HostLedger(world, view)

    def prefetch_from_storage() -> None:
        world.cache.inc_host_lock_ref(node)

    def release_aborted_request() -> None:
        world.cache.dec_host_lock_ref(node)

    prefetch_from_storage()
    ledger.settled()
    with pytest.raises(Broken, match=r"L3\.prefetch never released"):
        ledger.at_rest()
    release_aborted_request()
    view.forget()
    ledger.at_rest()
    with pytest.raises(Broken, match=r"L2\.prefetch releases what it never acquired"):
        release_aborted_request()


def test_a_host_lock_that_nobody_holds_is_told() -> None:
    world, view, node = kept()
    ledger = HostLedger(world, view)
    node.component_data[0].host_lock_ref = 1
    view.forget()
    with pytest.raises(Broken, match=r"L1\.full host lock counts drift"):
        ledger.settled()


def test_a_release_that_forgets_the_upper_half_of_a_split_is_told() -> None:
    world, view, node = kept()
    HostLedger(world, view)
    copied = world.cache._split_node

    def split(key: fakes.Key, child: fakes.Node, length: int) -> fakes.Node:
        above: fakes.Node = copied(key, child, length)
        above.component_data[0].host_lock_ref = 1
        return above

    world.cache._split_node = split
    ledger = HostLedger(world, view)

    def write_backup_storage() -> None:
        world.cache.inc_host_lock_ref(node)

    def _drain_backup() -> None:
        world.cache.dec_host_lock_ref(node)

    write_backup_storage()
    world.cache._split_node(node.key, node, 1)
    view.forget()
    ledger.settled()
    with pytest.raises(Broken, match=r"L2\.persist leaves full that it was given on the host"):
        _drain_backup()


def test_marks_tell_how_a_prefetch_ended() -> None:
    world, view, _ = kept()
    world.prompts, world.ended, world.scheduler = [], {}, fakes.SimpleNamespace(chunked_req=None)
    marks = Marks(world, view)
    fakes.prefetch(world, [3, 4], 1)
    revoked = fakes.prefetch(world, [], 0)
    revoked.hash_value = []
    marks.settled()
    world.cache.ongoing_prefetch.clear()
    fakes.Node([13], world.cache.root_node).put(None, host=[3])
    world.background.storage.kept = 2
    view.forget()
    marks.settled()
    counts = {mark: count for mark, count in marks.counts.items() if count}
    assert counts == {
        "prefetch": 2,
        "prefetch_revoked": 1,
        "prefetch_cut_short": 1,
        "prefetch_hit": 1,
        "prefetch_grafted": 1,
        "persisted": 2,
    }
