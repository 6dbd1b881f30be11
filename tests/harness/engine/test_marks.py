"""Marks: each counts its situation and no other."""

import pytest

from cache.config import WritePolicy
from cache.contract import Demand
from cache.observer import Observer
from harness.engine.job import JobStatus
from harness.engine.marks import MEANINGS, Marks
from harness.engine.scheduler import Limits
from tests.harness.engine.build import Ran, alone, build, config, judge, request, run

US = 1e-6


def counts(ran: Ran) -> dict[str, int]:
    return {mark: count for mark, count in ran.marks.counts.items() if count}


def test_every_mark_has_one_meaning():
    names = [meaning.mark for meaning in MEANINGS]
    assert len(set(names)) == len(names)
    assert all(meaning.meaning for meaning in MEANINGS)
    assert list(Marks(config()).counts) == names


@pytest.mark.parametrize(
    ("more", "required"),
    [
        ({}, {"prefix_hit", "device_eviction"}),
        ({"host": 8}, {"prefix_hit", "device_eviction", "backup_landed", "load_back_landed"}),
        (
            {"host": 8, "write_policy": WritePolicy.WRITE_BACK},
            {
                "prefix_hit",
                "device_eviction",
                "backup_landed",
                "load_back_landed",
                "backup_under_pressure",
            },
        ),
    ],
)
def test_what_a_soak_must_have_seen(more, required):
    settings = config(**more)
    assert set(Marks(settings).required(settings)) == required


def test_a_lone_request_leaves_no_mark():
    ran = judge(run(build(config(), alone(request("r", 20, 5)))))
    assert counts(ran) == {}  # the flush at its end evicted nothing


def test_hits_and_chunks_count_requests():
    requests = [request(f"r{i}", 21, 1, stream=1, arrival_s=float(i)) for i in range(3)]
    limits = Limits(chunked_prefill_size=8)
    ran = judge(run(build(config(), alone(*requests), limits=limits)))
    assert counts(ran) == {"prefix_hit": 2, "chunked_prefill": 1}


def test_an_eviction_without_a_host_drops_the_last_copy():
    requests = [request("a", 24, 1, stream=1), request("b", 24, 1, stream=2, arrival_s=1.0)]
    ran = judge(run(build(config(device=8), alone(*requests))))
    assert counts(ran) == {"device_eviction": 1, "last_copy_dropped": 1}


def back_and_forth(**more) -> Ran:
    """One prefix goes to the host and comes back."""
    settings = config(device=8, host=16, write_policy=WritePolicy.WRITE_THROUGH, **more)
    requests = [
        request("a", 24, 1, stream=1),
        request("b", 24, 1, stream=2, arrival_s=1.0),
        request("c", 25, 1, stream=1, arrival_s=2.0),
    ]
    return judge(run(build(settings, alone(*requests))))


def test_a_demotion_and_the_load_back_after_it():
    assert counts(back_and_forth()) == {
        "prefix_hit": 1,
        "device_eviction": 2,
        "demotion": 2,
        "backup_landed": 2,
        "load_back_landed": 1,
    }


def test_a_window_that_lands_does_not_count_as_inserted():
    seen = counts(back_and_forth(window=8, swa_device=8))
    assert seen["load_back_landed"] == 1
    assert seen["tombstone_under_lock"] == seen["revived_under_lock"] == 1
    assert "insert_filled_tombstone" not in seen


def test_a_window_that_an_insert_brings_counts():
    """The second request recomputes the head of a prefix, of which only the window is gone."""
    settings = config(window=8, swa_device=8, device=16)
    requests = [request("a", 25, 1, stream=1), request("b", 13, 1, stream=1, arrival_s=1.0)]

    class Evict(Observer):
        def closed(self, table):
            if table.holder == "a":
                ran.cache.make_room(Demand(0, 6))  # not the leaf's window

    limits = Limits(chunked_prefill_size=16)  # two nodes
    ran = build(settings, alone(*requests), limits=limits, watchers=[Evict()])
    judge(run(ran))
    seen = counts(ran)
    assert seen["window_tombstoned"] >= 1
    assert seen["insert_filled_tombstone"] >= 1
    assert seen["insert_met_duplicate"] >= 1


@pytest.mark.parametrize(
    ("after_us", "mark"),
    [(0.0, "abort_while_queued"), (2.5, "abort_while_running"), (8.5, "abort_while_running")],
)
def test_where_an_abort_finds_its_request(after_us, mark):
    wanted = request("r", 20, 20, abort_after_s=after_us * US)
    limits = Limits(chunked_prefill_size=4, match_s=US)
    ran = judge(run(build(config(), alone(wanted), limits=limits)))
    assert ran["r"].status is JobStatus.ABORTED
    assert counts(ran)[mark] == 1
