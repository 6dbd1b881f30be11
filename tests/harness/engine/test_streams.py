"""Copy streams: one a direction, in order, and only the bytes that really moved count."""

import pytest

from cache.config import CacheConfig, PoolPages, Tier, WritePolicy
from cache.observer import Observer
from cache.transfers import CopyState
from harness.engine.compute import Direction
from harness.engine.job import JobStatus
from harness.engine.world import Grain
from harness.explore.pickers import Search, VirtualClock
from harness.explore.strategies import Uniform
from tests.harness.engine.build import Fixed, alone, build, judge, request, run

US = 1e-6


class Log(Observer):
    """When copies were issued, ran and were acknowledged."""

    def __init__(self) -> None:
        self.kernel = None
        self.events: list[tuple[str, int, Tier, float]] = []

    def issued(self, copy):
        self.events.append(("issued", copy.number, copy.target, self.kernel.now))

    def running(self, copy):
        self.events.append(("ran", copy.number, copy.target, self.kernel.now))

    def acknowledged(self, copy):
        self.events.append((copy.state.value, copy.number, copy.target, self.kernel.now))

    def numbers(self, what: str, target: Tier) -> list[int]:
        return [n for event, n, tier, _ in self.events if (event, tier) == (what, target)]


def settings(**more) -> CacheConfig:
    return CacheConfig(
        page_size=4,
        full=PoolPages(16, 64),
        swa=PoolPages(16, 64),
        window=8,
        write_policy=WritePolicy.WRITE_THROUGH,
        page_bytes=(100, 7),
        **more,
    )


def traffic(count: int = 9):
    """Three prefixes too many for the device: they go and come back."""
    return alone(
        *(request(f"r{i}", 21 + i, 3, stream=i % 3, arrival_s=i * 20 * US) for i in range(count))
    )


def logged(*, grain: Grain | None = None, compute=None, sessions=None):
    log = Log()
    ran = build(settings(), sessions or traffic(), grain=grain, compute=compute, watchers=[log])
    log.kernel = ran.world.kernel
    return log, ran


@pytest.mark.parametrize("seed", range(5))
def test_copies_of_a_direction_run_and_are_acknowledged_in_order_of_issue(seed):
    strategy = Uniform()
    strategy.begin(seed, None)  # type: ignore[arg-type]
    log, ran = logged(grain=Grain(fine=True))
    judge(run(ran, Search(strategy)))
    for target in Tier:
        issued = log.numbers("issued", target)
        assert issued
        assert issued == sorted(issued) == log.numbers("ran", target) == log.numbers("done", target)


def test_a_copy_takes_its_time_and_the_next_waits_for_it():
    log, ran = logged(compute=Fixed(copy_s=50 * US))
    judge(run(ran))
    for target in Tier:
        when = {n: at for event, n, tier, at in log.events if (event, tier) == ("issued", target)}
        free = 0.0
        for number, at in [(n, at) for e, n, t, at in log.events if (e, t) == ("ran", target)]:
            if at >= ran.ended.now:
                continue  # landed at rest
            free = max(free, when[number]) + 50 * US
            assert at == pytest.approx(free)


def test_the_two_directions_do_not_wait_for_each_other():
    asked = []

    class Uneven(Fixed):
        def copy_s(self, num_bytes, pages, direction):
            asked.append((num_bytes, pages, direction))
            return 1e-9 if direction is Direction.HOST_TO_DEVICE else 30 * US

    log, ran = logged(compute=Uneven())
    judge(run(ran))
    assert {direction for _, _, direction in asked} == set(Direction)
    loads = [(e, n) for e, n, tier, _ in log.events if tier is Tier.DEVICE and e != "done"]
    assert loads[0::2] == [("issued", n) for _, n in loads[0::2]]  # each runs before the next comes
    assert loads[1::2] == [("ran", n) for _, n in loads[0::2]]


def test_bytes_moved_are_those_of_the_pages_of_each_component():
    moved = dict.fromkeys(Tier, 0)

    class Count(Observer):
        def running(self, copy):
            for part in copy.parts:
                moved[copy.target] += len(part.target) * (100, 7)[part.component]

    ran = build(settings(), traffic(), watchers=[Count()])
    run(ran)
    assert all(moved.values())
    assert ran.world.streams.bytes_moved == moved
    judge(ran)


def test_a_broken_copy_moves_nothing_and_is_given_back():
    log, ran = logged(grain=Grain(copy_outcomes=2))
    run(ran, VirtualClock(draws=lambda label, bound: 1))
    streams = ran.world.streams
    assert streams.bytes_moved == dict.fromkeys(Tier, 0)
    assert streams.failed >= len(log.numbers("failed", Tier.HOST)) > 0
    assert not log.numbers("ran", Tier.HOST)
    judge(ran)
    assert all(job.status is JobStatus.COMPLETED for job in ran.jobs)


def test_outcomes_are_drawn_under_one_label():
    seen = set()

    def draws(label, bound):
        seen.add((label, bound))
        return 0

    judge(run(logged(grain=Grain(copy_outcomes=3))[1], VirtualClock(draws=draws)))
    assert seen == {("copy.fail", 3)}


def test_rest_lands_what_is_still_in_flight():
    ran = logged(compute=Fixed(copy_s=1.0), sessions=traffic(1))[1]
    run(ran)
    assert ran.ended.reason == "finished"
    flying = [c for tier in Tier for c in ran.cache.transfers.queues[tier]]
    assert flying
    ran.world.rest()
    assert all(copy.state is CopyState.DONE for copy in flying)
    judge(ran)
