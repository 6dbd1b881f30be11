"""Traffic: what moved, what went, and how much was in use, against a count slot by slot."""

from collections import Counter

import pytest

from cache.config import CacheConfig, PoolPages, Tier, WritePolicy
from cache.observer import Observer
from cache.pools import Owner
from cache.transfers import CopyState
from harness.engine.traffic import Traffic
from harness.engine.world import Grain
from harness.explore.pickers import VirtualClock
from tests.harness.engine.build import alone, build, config, judge, request, run

BYTES = (100, 7)
SETTINGS = CacheConfig(
    page_size=4,
    full=PoolPages(16, 64),
    swa=PoolPages(10, 40),
    window=8,
    write_policy=WritePolicy.WRITE_THROUGH,
    page_bytes=BYTES,
)


class Slots(Observer):
    """The same, from owners and stores, one slot at a time."""

    def __init__(self) -> None:
        self.used = {tier: Counter() for tier in Tier}
        self.peak = dict.fromkeys(Tier, 0)
        self.freed = Counter()

    def allocated(self, pool, slots, owner):
        assert owner in (Owner.REQUEST, Owner.COPY)
        for slot in slots:
            self.used[place(pool)][pool.name, slot] += 1
            self.peak[place(pool)] = max(self.peak[place(pool)], self.bytes(place(pool)))

    def released(self, pool, slots):
        for slot in slots:
            self.used[place(pool)][pool.name, slot] -= 1

    def bytes(self, tier: Tier) -> int:
        return sum(n * BYTES[name.endswith("swa")] for (name, _), n in self.used[tier].items())


def place(pool) -> Tier:
    return Tier.HOST if pool.name.startswith("host") else Tier.DEVICE


def requests(count: int = 12):
    return alone(
        *(request(f"r{i}", 21 + i, 6, stream=i % 4, arrival_s=i * 2e-5) for i in range(count))
    )


@pytest.mark.parametrize("outcomes", [1, 2])
def test_bytes_in_use_and_their_peak_equal_a_count_of_slots(outcomes):
    traffic, slots, draws = Traffic(SETTINGS), Slots(), iter([0, 1, 0, 0, 1] * 100)
    grain = Grain(copy_outcomes=outcomes)
    ran = build(SETTINGS, requests(), watchers=[traffic, slots], grain=grain)
    run(ran, VirtualClock(draws=lambda label, bound: next(draws)))
    for tier in Tier:
        assert traffic.used_bytes[tier] == slots.bytes(tier) > 0
        assert traffic.peak_bytes[tier] == slots.peak[tier]
    judge(ran)
    assert set(traffic.used_bytes.values()) == {0}


def test_a_copied_page_counts_at_both_ends():
    traffic = Traffic(SETTINGS)
    ran = run(build(SETTINGS, requests(), watchers=[traffic]))
    moved = dict(ran.world.streams.bytes_moved)
    for tier in Tier:
        for copy in ran.cache.transfers.queues[tier]:
            if copy.state is CopyState.QUEUED:  # it lands at rest
                moved[tier] += sum(len(p.target) * BYTES[p.component] for p in copy.parts)
    ran.world.rest()
    assert traffic.read_bytes[Tier.HOST] == moved[Tier.DEVICE] > 0
    assert traffic.read_bytes[Tier.DEVICE] == moved[Tier.HOST] > 0
    assert traffic.written_bytes[Tier.HOST] == moved[Tier.HOST]
    judge(ran)


def test_computed_pages_are_written_once_for_each_component():
    settings = config(page=4, device=32, window=100, page_bytes=BYTES)
    traffic = Traffic(settings)
    ran = build(settings, alone(request("r", 21, 6)), watchers=[traffic])
    judge(run(ran))
    assert traffic.written_bytes == {Tier.DEVICE: 26 // 4 * sum(BYTES), Tier.HOST: 0}


def test_a_failed_copy_moved_nothing():
    traffic = Traffic(SETTINGS)
    ran = build(SETTINGS, requests(), watchers=[traffic], grain=Grain(copy_outcomes=2))
    run(ran, VirtualClock(draws=lambda label, bound: 1))
    assert ran.world.streams.failed > 0
    assert traffic.written_bytes[Tier.HOST] == 0
    assert set(traffic.read_bytes.values()) == {0}
    judge(ran)


def test_a_flush_evicts_nothing():
    settings = config(page=4, device=32, page_bytes=BYTES)
    traffic = Traffic(settings)
    ran = run(build(settings, alone(request("r", 21, 6)), watchers=[traffic]))
    traffic.freeze()
    assert ran.cache.flush()
    assert traffic.evicted_pages == dict.fromkeys(Tier, 0)


def test_evicted_pages_are_those_that_left_a_tier():
    settings = config(page=4, device=8, page_bytes=BYTES)
    traffic = Traffic(settings)
    sessions = alone(request("a", 24, 1, stream=1), request("b", 16, 1, stream=2, arrival_s=1.0))
    judge(run(build(settings, sessions, watchers=[traffic])))
    # a left 6 pages of 8; b needs 5 for 17 tokens, so 3 went; the flush took the other 3 and b's 4.
    assert traffic.evicted_pages[Tier.DEVICE] == 3 + (3 + 4)
