"""The scheduler: who is served when, who is turned away, and that nobody is forgotten."""

import pytest

from cache.config import WritePolicy
from cache.null import NullCache
from cache.unified import UnifiedCache
from harness.engine.clients import Load
from harness.engine.job import JobState, JobStatus
from harness.engine.scheduler import Limits
from harness.engine.world import Grain
from harness.explore.pickers import Search, VirtualClock
from harness.explore.strategies import Sticky, Uniform
from tests.harness.engine.build import Fixed, Ran, alone, build, config, judge, request, run
from workloads.request import Session
from workloads.tokens import Span

US = 1e-6


def searched(ran: Ran, seed: int, stay: float = 0.0) -> Ran:
    strategy = Sticky(stay) if stay else Uniform()
    strategy.begin(seed, None)  # type: ignore[arg-type]
    return judge(run(ran, Search(strategy), steps=20_000))


# -- who is turned away ----------------------------------------------------------------------------


@pytest.mark.parametrize("cache_type", [UnifiedCache, NullCache])
def test_what_can_never_run_is_rejected_and_counted(cache_type):
    requests = [
        request("context", 100, 1, stream=1),
        request("pool", 60, 5, stream=2),
        request("fits", 60, 4, stream=3),
        request("clamped", 60, 500, stream=3, arrival_s=1.0),
    ]
    limits = Limits(context_length=64)
    settings = config(page=4, device=16)
    ran = judge(run(build(settings, alone(*requests), limits=limits, cache_type=cache_type)))
    assert ran["context"].status is JobStatus.REJECTED
    assert "context of 64" in ran["context"].error
    assert ran["pool"].status is ran["fits"].status is JobStatus.COMPLETED
    assert ran["clamped"].generated == 4  # the context ends the answer
    assert "context" not in [job.name for job in ran.accepted]


def test_a_request_longer_than_the_pool_is_rejected():
    ran = build(config(page=4, device=16), alone(request("long", 60, 5), request("fits", 60, 4)))
    judge(run(ran))
    assert "17 pages do not fit a device pool of 16" in ran["long"].error
    assert ran["fits"].status is JobStatus.COMPLETED


@pytest.mark.parametrize(("slots", "status"), [(3, "rejected"), (4, "completed")])
def test_a_window_needs_two_pages_more_than_it_has(slots, status):
    settings = config(page=4, device=16, window=8, swa_device=slots)
    ran = judge(run(build(settings, alone(request("long", 20, 5), request("short", 7, 5)))))
    assert ran["long"].status.value == status
    assert ran["short"].status is JobStatus.COMPLETED  # shorter than the window and two pages


def test_a_chunk_less_than_a_page_is_refused():
    """No prefill would ever get on: every chunk but the last ends on a page."""
    with pytest.raises(AssertionError, match="a chunk holds a page"):
        build(config(page=4), [], limits=Limits(chunked_prefill_size=3))


# -- who is served when ----------------------------------------------------------------------------


def test_a_higher_priority_goes_first_and_equals_go_in_order():
    requests = [request("first", 8, 8, stream=1)]
    for name, priority in (("a", 0), ("b", 0), ("c", 2), ("d", 1), ("e", 2)):
        stream = 10 + len(requests)
        requests.append(request(name, 8, 2, stream=stream, priority=priority, arrival_s=US))
    limits = Limits(max_running_requests=1)
    ran = judge(run(build(config(), alone(*requests), limits=limits)))
    assert [job.name for job in ran.jobs] == ["first", "c", "e", "d", "a", "b"]


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("fine", [False, True])
def test_no_more_requests_run_than_are_allowed(most, fine):
    requests = [request(f"r{i}", 9, 6, stream=i) for i in range(12)]
    limits, grain = Limits(max_running_requests=most), Grain(fine=fine)
    ran = build(config(device=100), alone(*requests), limits=limits, grain=grain)
    seen = []
    ran.world.kernel.spawn("watch", _watch(ran, seen), daemon=True)
    judge(run(ran))
    assert max(seen) == most


async def _watch(ran, seen):
    while True:
        seen.append(ran.scheduler.roster.running)
        await ran.world.kernel.pause(0.5 * US, "watch")


def test_a_queued_request_that_finds_no_room_keeps_its_place():
    requests = [
        request("big", 60, 20, stream=1),
        request("large", 60, 4, stream=2, arrival_s=US),
        request("small", 4, 2, stream=3, arrival_s=2 * US),
    ]
    ran = judge(run(build(config(device=20), alone(*requests))))
    assert [job.name for job in ran.jobs] == ["big", "small", "large"]
    assert ran["small"].admitted_s >= ran["large"].admitted_s >= ran["big"].end_s


def test_time_without_room_counts_as_queueing():
    requests = [request("big", 60, 20, stream=1), request("next", 60, 4, stream=2, arrival_s=US)]
    limits = Limits(match_s=US)
    ran = judge(run(build(config(device=20), alone(*requests), limits=limits)))
    job = ran["next"]
    assert job.admitted_s >= ran["big"].end_s
    assert job.matched_s - job.admitted_s == pytest.approx(US)


# -- nobody is forgotten ---------------------------------------------------------------------------


def test_backups_that_planning_issues_are_run_at_once():
    """Under write_back the room for a prefill is made by backups; who waits must start them."""
    settings = config(device=8, host=8, write_policy=WritePolicy.WRITE_BACK)
    requests = [request("a", 28, 4, stream=1), request("b", 4, 4, stream=2, arrival_s=1.0)]
    ran = judge(run(build(settings, alone(*requests))))
    assert ran.marks.counts["backup_under_pressure"] > 0
    assert [job.status for job in ran.jobs] == [JobStatus.COMPLETED] * 2


def loading(name: str, start_s: float) -> list[Session]:
    """`evicted` is demoted by `other`; `name` comes back for it and has to load."""
    return alone(
        request("evicted", 24, 2, stream=1),
        request("other", 24, 2, stream=2, arrival_s=0.001),
        request(name, 24, 2, stream=1, arrival_s=start_s),
    )


def test_a_copy_that_lands_during_an_admission_is_not_slept_through():
    settings = config(device=8, host=16, write_policy=WritePolicy.WRITE_THROUGH)
    sessions = loading("back", 0.002)
    sessions += alone(request("blocked", 28, 2, stream=3, arrival_s=0.002 + 10.5 * US))
    limits, compute = Limits(match_s=10 * US), Fixed(copy_s=5 * US)
    ran = judge(run(build(settings, sessions, limits=limits, compute=compute)))
    assert ran["back"].host_tokens > 0
    assert ran["blocked"].status is JobStatus.COMPLETED


@pytest.mark.parametrize("cache_type", [UnifiedCache, NullCache])
def test_a_request_that_fills_the_pool_runs_alone_whatever_is_kept_for_answers(cache_type):
    limits = Limits(new_token_ratio=1.0)
    sessions = alone(request("whole", 16, 16))
    ran = judge(run(build(config(device=8), sessions, limits=limits, cache_type=cache_type)))
    assert ran["whole"].generated == 16


@pytest.mark.parametrize("stay", [0.0, 0.7, 0.95])
def test_admissions_in_each_others_way_are_tried_again(stay):
    """Two locks on different prefixes leave room for neither; both let go, and one must go on."""
    requests = [request(f"r{i}", 16, 8, stream=i % 3) for i in range(6)]
    attempts = 0
    for seed in range(40):
        grain = Grain(fine=True, scattered=True)
        ran = build(config(device=7, host=8), alone(*requests), grain=grain)
        searched(ran, seed, stay)
        attempts += sum("#" in task.name for task in ran.world.kernel.tasks)
    assert attempts > 40 * 2 * len(requests)


# -- clients that leave ----------------------------------------------------------------------------

MOMENTS = range(1, 116, 2)


def leaving(after_us: float, **more) -> Ran:
    """`back` leaves some time after it was sent: queued, admitting, loading, in prefill, decode."""
    settings = config(
        device=12, host=16, write_policy=WritePolicy.WRITE_THROUGH, window=8, swa_device=5
    )
    sessions = alone(
        request("evicted", 24, 2, stream=1),
        request("other", 40, 2, stream=2, arrival_s=0.001),
        request("busy", 12, 8, stream=3, arrival_s=0.002),
        request("back", 33, 12, stream=1, arrival_s=0.002, abort_after_s=after_us * US),
        request("next", 33, 2, stream=1, arrival_s=0.003),
    )
    limits = Limits(chunked_prefill_size=4, max_running_requests=1, match_s=3 * US)
    return build(
        settings, sessions, limits=limits, compute=Fixed(step_s=2 * US, copy_s=9 * US), **more
    )


def test_an_abort_at_any_moment_leaves_every_pool_whole():
    found = []
    for after_us in MOMENTS:
        ran = judge(run(leaving(after_us), audits=after_us % 20 == 1))
        assert ran["next"].status is JobStatus.COMPLETED
        job = ran["back"]
        if job.status is JobStatus.ABORTED:
            found.append(job.aborted_in)
            assert job.end_s - job.sent_s >= (after_us - 0.001) * US
    order = [
        JobState.QUEUED,
        JobState.ADMITTING,
        JobState.LOADING,
        JobState.PREFILL,
        JobState.DECODE,
    ]
    assert list(dict.fromkeys(found)) == order
    assert ran["back"].status is JobStatus.COMPLETED  # the last moment was too late


class LeavesAt(Uniform):
    """The natural order of events, but the client leaves at one choice and not before."""

    def __init__(self, choice: int) -> None:
        super().__init__()
        self._left = choice

    def pick(self, runnable, current):
        self._left -= 1
        leaver = next((i for i, task in enumerate(runnable) if task.name.startswith("A")), None)
        if leaver is None or (self._left > 0 and leaver > 0):
            return 0
        return leaver if self._left <= 0 else 1


@pytest.mark.parametrize("fine", [False, True])
def test_an_abort_between_any_two_steps_leaves_every_pool_whole(fine):
    found = []
    for choice in range(160, 300 if fine else 200):
        ran = judge(run(leaving(1, grain=Grain(fine=fine)), Search(LeavesAt(choice))))
        if ran["back"].status is JobStatus.ABORTED:
            found.append(ran["back"].aborted_in)
    running = {JobState.LOADING, JobState.PREFILL, JobState.DECODE}
    assert set(found) == {JobState.QUEUED, JobState.ADMITTING} | running
    assert found.count(JobState.ADMITTING) >= (6 if fine else 1)


def test_a_request_aborted_while_stalled_or_retracted_ends_once():
    statuses = []
    for after_us in range(2, 60, 2):
        requests = [
            request("old", 8, 24, stream=1),
            request("young", 8, 24, stream=2, abort_after_s=after_us * US),
        ]
        limits = Limits(new_token_ratio=0.0)
        ran = judge(run(build(config(device=9), alone(*requests), limits=limits)))
        statuses.append((ran["young"].status, ran["young"].preemptions > 0))
    assert (JobStatus.ABORTED, True) in statuses
    assert (JobStatus.ABORTED, False) in statuses


def test_what_an_aborted_request_computed_serves_the_next():
    sessions = alone(
        request("leaves", 40, 40, stream=1, abort_after_s=20 * US),
        request("comes", 40, 1, stream=1, arrival_s=1.0),
    )
    ran = judge(run(build(config(), sessions)))
    assert ran["leaves"].status is JobStatus.ABORTED
    assert ran["comes"].device_tokens == 36  # whole pages, the last token left to compute


# -- copies that fail ------------------------------------------------------------------------------


def test_a_request_whose_load_back_fails_is_admitted_again():
    settings = config(device=8, host=16, write_policy=WritePolicy.WRITE_THROUGH)
    outcomes = iter([0, 0, 1])  # both backups work, the load-back breaks
    clock = VirtualClock(draws=lambda label, bound: next(outcomes, 0))
    ran = build(settings, loading("back", 0.002), grain=Grain(copy_outcomes=2))
    judge(run(ran, clock, audits=True))
    assert ran.marks.counts["copy_failed"] == 1
    assert ran["back"].requeues == 1
    assert ran["back"].preemptions == 0
    assert ran["back"].host_tokens > 0  # the second load-back landed
    assert ran["back"].status is JobStatus.COMPLETED


def test_a_client_that_leaves_while_its_load_back_fails_is_told_once():
    settings = config(device=8, host=16, write_policy=WritePolicy.WRITE_THROUGH)
    ended = []
    for after_us in range(1, 12):
        outcomes = iter([0, 0, 1])
        sessions = loading("back", 0.002)
        leaver = request("back", 24, 2, stream=1, arrival_s=0.002, abort_after_s=after_us * US)
        sessions[-1] = alone(leaver)[0]
        clock = VirtualClock(draws=lambda label, bound, left=outcomes: next(left, 0))
        grain, compute = Grain(copy_outcomes=2), Fixed(copy_s=5 * US)
        ran = judge(run(build(settings, sessions, grain=grain, compute=compute), clock))
        ended.append(ran["back"].status)
    assert set(ended) == {JobStatus.ABORTED, JobStatus.COMPLETED}


def test_the_whole_conversation_is_read_back_turn_by_turn():
    """Three turns: each finds the turn before it, answer included."""
    turns, said = [], [Span(7, 0, 21)]
    for turn in range(3):
        answer = Span(70 + turn, 0, 13)
        first = request(f"t{turn}", 1, 1)
        turns.append(
            type(first)(
                f"t{turn}", "s", turn, tuple(said), (answer,), 0.0, None if not turn else 5 * US
            )
        )
        said += [answer, Span(700 + turn, 0, 6)]
    ran = judge(run(build(config(device=64), [Session("s", tuple(turns))], load=Load())))
    hits = [ran[f"t{turn}"].device_tokens for turn in range(3)]
    assert hits == [0, (21 + 12) // 4 * 4, (21 + 13 + 6 + 12) // 4 * 4]
