"""Sums over time stay exact however long the run is, and their memory bounded."""

from harness.record.filling import Filling
from harness.record.hit_windows import CAPACITY, FIRST_WIDTH_S, HitWindows
from harness.record.manifest import Pool


def test_requests_of_one_window_are_added_up():
    hits = HitWindows()
    hits.add(FIRST_WIDTH_S / 2, prompt=10, cached=4, ideal=6)
    hits.add(0.0, prompt=1, cached=1, ideal=1)
    assert hits.windows() == [(0.0, FIRST_WIDTH_S, 2, 11, 5, 7)]


def test_a_long_run_has_wider_windows_and_the_same_sums():
    hits = HitWindows()
    times = [place * 7.0 for place in range(5000)]
    for at_s in reversed(times):
        hits.add(at_s, prompt=3, cached=1, ideal=2)
    found = hits.windows()
    assert len(found) <= CAPACITY
    assert [sum(w[field] for w in found) for field in (2, 3, 4, 5)] == [5000, 15000, 5000, 10000]
    assert [w.start_s for w in found] == sorted(w.start_s for w in found)
    assert found[-1].start_s <= times[-1] < found[-1].start_s + found[-1].width_s


def test_the_pools_are_full_when_the_last_that_ever_was_is():
    filling = Filling((Pool("device", "full", 100, 1), Pool("host", "full", 100, 1)))
    filling.sample(1.0, {"device_full_used_pages": 50, "host_full_used_pages": 5})
    assert filling.full_s == 0.0
    filling.sample(2.0, {"device_full_used_pages": 95, "host_full_used_pages": 50})
    filling.sample(3.0, {"device_full_used_pages": 40, "host_full_used_pages": 80})
    assert filling.full_s == 2.0
    filling.sample(4.0, {"device_full_used_pages": 99, "host_full_used_pages": 90})
    assert filling.full_s == 4.0


def test_a_servers_own_pools_count_too():
    filling = Filling(())
    told = {"server_device_used_tokens": 40.0, "server_device_evictable_tokens": 55.0}
    filling.sample(1.0, {"server_up": 1.0})
    assert filling.full_s is None
    filling.sample(5.0, {**told, "server_device_total_tokens": 100.0})
    assert filling.full_s == 5.0


def test_what_a_server_did_not_say_is_no_pool():
    filling = Filling(())
    nothing = float("nan")
    filling.sample(1.0, {"server_host_used_tokens": nothing, "server_host_total_tokens": nothing})
    assert filling.full_s is None
