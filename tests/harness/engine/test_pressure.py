"""Memory pressure: the youngest gives way, the oldest gets on, nobody goes round in circles."""

import pytest

from cache.config import EvictionOrder, WritePolicy
from cache.null import NullCache
from cache.observer import Observer
from cache.unified import UnifiedCache
from harness.engine.job import JobStatus
from harness.engine.scheduler import Limits
from harness.engine.world import Grain
from harness.explore.pickers import Search
from harness.explore.strategies import Uniform
from tests.harness.engine.build import Ran, alone, build, config, judge, request, run

GREEDY = Limits(new_token_ratio=0.0)  # admits as if no answer took room
BOTH = pytest.mark.parametrize("cache_type", [UnifiedCache, NullCache])


def watched(ran: Ran) -> list[tuple[str, list[str]]]:
    """Every retraction to come: who, and who held pages then."""
    pressure, seen = ran.scheduler.forward.pressure, []
    retract = pressure.retract

    def spy(job):
        seen.append((job.name, [other.name for other in ran.scheduler.roster.holders()]))
        assert all(other.order <= job.order for other in ran.scheduler.roster.holders())
        retract(job)

    pressure.retract = spy
    return seen


@BOTH
def test_the_youngest_gives_way_and_everybody_ends(cache_type):
    requests = [request(f"r{i}", 8, 40, stream=i) for i in range(5)]
    ran = build(config(device=14), alone(*requests), limits=GREEDY, cache_type=cache_type)
    seen = watched(ran)
    judge(run(ran))
    assert len(seen) >= 4
    assert "r0" not in [name for name, _ in seen]
    assert ran["r0"].end_s == min(job.end_s for job in ran.jobs)
    assert all(job.generated == 40 for job in ran.jobs)
    assert sum(job.preemptions for job in ran.jobs) == ran.marks.counts["retraction"] == len(seen)


@BOTH
def test_a_higher_priority_takes_the_pages_of_a_lower_one_that_came_first(cache_type):
    requests = [
        request("low", 8, 40, stream=1),
        request("high", 8, 40, stream=2, priority=1, arrival_s=1e-6),
    ]
    ran = build(config(device=14), alone(*requests), limits=GREEDY, cache_type=cache_type)
    seen = watched(ran)
    judge(run(ran))
    assert {name for name, _ in seen} == {"low"}
    assert ran["high"].end_s < ran["low"].end_s


def test_what_a_retracted_request_knew_is_not_lost():
    """It prefills what it knows, from the cache as far as that kept it, and goes on from there."""
    requests = [request("old", 8, 40, stream=1), request("young", 8, 40, stream=2)]
    ran = build(config(device=14), alone(*requests), limits=GREEDY)
    watched(ran)
    judge(run(ran))
    young = ran["young"]
    assert young.preemptions == young.requeues > 0
    assert young.generated == 40
    assert young.key.tokens == 8 + 40  # every token was decided once
    assert young.first_token_s < ran["old"].end_s < young.end_s


def test_a_complete_answer_is_not_retracted_for_a_growing_one():
    """Both are due at one step: the page that the end of one frees is what the other needs."""
    requests = [request("grows", 4, 10, stream=1), request("ends", 4, 5, stream=2)]
    ran = judge(run(build(config(device=4), alone(*requests), limits=GREEDY)))
    assert [job.name for job in ran.jobs] == ["ends", "grows"]
    assert ran.marks.counts["retraction"] == 0


def test_a_growing_request_waits_for_copies_rather_than_retract():
    settings = config(device=10, host=20, write_policy=WritePolicy.WRITE_BACK)
    requests = [request("past", 24, 4, stream=1)]
    requests += [request(f"r{i}", 8, 16, stream=2 + i, arrival_s=1.0) for i in range(2)]
    ran = judge(run(build(settings, alone(*requests), limits=GREEDY)))
    assert ran.marks.counts["room_waited_for"] > 0
    assert ran.marks.counts["backup_under_pressure"] > 0


# -- windows ---------------------------------------------------------------------------------------


def narrow(window: int, page: int = 4, **more):
    """An SWA pool that just holds a window, the page being filled and the next."""
    slots = -(-window // page) + 2
    return config(page=page, device=64, window=window, swa_device=slots, **more)


@BOTH
@pytest.mark.parametrize(("page", "window"), [(4, 8), (4, 7), (4, 9), (4, 1), (1, 5), (16, 3)])
def test_one_request_gets_on_in_a_pool_of_a_window_and_two_pages(cache_type, page, window):
    sessions = alone(request("long", 30 * page - 3, 30 * page))
    ran = judge(run(build(narrow(window, page), sessions, cache_type=cache_type)))
    assert ran["long"].preemptions == 0


def test_a_long_shared_prefix_does_not_starve_its_reader_of_windows():
    """Its node is far longer than a window: a lock over the whole of it would take every slot."""
    settings = config(page=4, device=64, window=8, swa_device=12)
    requests = [
        request("writes", 40, 1, stream=1),
        request("reads", 41, 60, stream=1, arrival_s=1.0),
        request("beside", 24, 20, stream=2, arrival_s=1.0),
    ]
    ran = judge(run(build(settings, alone(*requests))))
    assert ran["reads"].device_tokens == 40
    assert ran["reads"].preemptions == ran["beside"].preemptions == 0


@BOTH
@pytest.mark.parametrize("swa_device", [4, 5, 7, 8, 9])
@pytest.mark.parametrize("fine", [False, True])
def test_requests_that_share_too_few_windows_take_turns(cache_type, swa_device, fine):
    settings = config(page=4, device=64, window=8, swa_device=swa_device)
    requests = [request(f"r{i}", 24 + i, 20, stream=i) for i in range(4)]
    grain = Grain(fine=fine)
    ran = judge(run(build(settings, alone(*requests), cache_type=cache_type, grain=grain)))
    assert all(job.status is JobStatus.COMPLETED for job in ran.jobs)
    assert ran.marks.counts["retraction"] == 0
    assert ran.scheduler.forward.steps < 4 * (6 + 20) + 1


def test_short_requests_share_what_would_not_hold_as_many_windows():
    settings = config(page=4, device=64, window=40, swa_device=12)
    requests = [request(f"r{i}", 8, 8, stream=i) for i in range(3)]
    ran = judge(run(build(settings, alone(*requests))))
    assert len({job.end_s for job in ran.jobs}) == 1  # side by side: 3 x 4 pages


def test_decode_lets_the_shared_window_go_page_by_page_when_slots_are_short():
    """While it decodes, a request holds the window that it shares and grows its own: nearly two."""

    class Commits(Observer):
        count = 0

        def committed(self, table, result):
            self.count += 1

    commits = Commits()
    ran = build(narrow(20), alone(request("r", 24, 40)), watchers=[commits])
    judge(run(ran))
    assert ran["r"].preemptions == 0
    assert commits.count > ran["r"].chunks + 1  # also while it decoded


@pytest.mark.parametrize("policy", list(WritePolicy))
@pytest.mark.parametrize("order", list(EvictionOrder))
def test_narrow_windows_end_under_every_policy(policy, order):
    for seed in range(4):
        host = 8 if seed % 2 else 0
        settings = config(
            page=2,
            device=24,
            host=host,
            window=3,
            swa_device=4,
            write_policy=policy,
            device_eviction=order,
            host_eviction=order,
        )
        requests = [request(f"r{i}", 9 + 2 * i, 12, stream=i % 2) for i in range(6)]
        strategy = Uniform()
        strategy.begin(seed, None)  # type: ignore[arg-type]
        grain = Grain(fine=seed > 1, scattered=True, copy_outcomes=2)
        ran = build(settings, alone(*requests), grain=grain, limits=GREEDY)
        judge(run(ran, Search(strategy), audits=True, steps=10_000))
