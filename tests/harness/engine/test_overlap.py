"""Prefills that begin ahead of their load-backs: the longer of the two counts, a load-back that
fails takes what was computed with it, and nothing is read before it has been acknowledged."""

from dataclasses import replace

import pytest

from cache.config import WritePolicy
from harness.engine.job import JobStatus
from harness.engine.overlap import Overlap
from harness.engine.scheduler import Limits
from harness.engine.world import Grain
from harness.explore.pickers import Search, VirtualClock
from harness.explore.strategies import Uniform
from harness.oracles import Violation, Watch, default_oracles
from tests.harness.engine.build import (
    Fixed,
    Ran,
    alone,
    build,
    config,
    judge,
    nasty,
    request,
    run,
)
from tests.harness.engine.test_ranked_world import Told, agreeing, ranked
from tests.harness.engine.test_world import on_clock, searched
from workloads.request import Session

US = 1e-6
AHEAD = Limits(overlap=Overlap.LAYER)
SETTINGS = config(device=8, host=16, write_policy=WritePolicy.WRITE_THROUGH)


def coming_back(prompt: int = 24, **more: float) -> list[Session]:
    """`back` comes for what `other` has pushed out to the host."""
    return alone(
        request("evicted", 24, 2, stream=1),
        request("other", 24, 2, stream=2, arrival_s=0.001),
        request("back", prompt, 2, stream=1, arrival_s=0.002, **more),
    )


@pytest.mark.parametrize(("copy_us", "first_us"), [(5, 7), (7, 7), (20, 20)])
def test_the_first_token_comes_when_the_longer_of_load_and_compute_is_over(copy_us, first_us):
    compute = Fixed(step_s=7 * US, copy_s=copy_us * US)
    ran = build(SETTINGS, coming_back(), compute=compute, limits=AHEAD)
    job = judge(run(ran, audits=True))["back"]
    assert job.host_tokens > 0
    assert job.loaded_s == job.matched_s
    assert job.first_token_s - job.loaded_s == pytest.approx(first_us * US)


def test_without_overlap_the_two_follow_one_another():
    compute = Fixed(step_s=7 * US, copy_s=5 * US)
    job = judge(run(build(SETTINGS, coming_back(), compute=compute)))["back"]
    assert job.first_token_s - job.matched_s == pytest.approx(12 * US)


@pytest.mark.parametrize("copy_us", [5, 20])
def test_what_was_computed_ahead_of_a_load_back_that_fails_is_discarded(copy_us):
    outcomes = iter([0, 0, 1])  # both backups work, the load-back breaks
    clock = VirtualClock(draws=lambda label, bound: next(outcomes, 0))
    compute = Fixed(step_s=7 * US, copy_s=copy_us * US)
    ran = build(
        SETTINGS, coming_back(), compute=compute, limits=AHEAD, grain=Grain(copy_outcomes=2)
    )
    job = judge(run(ran, clock, audits=True))["back"]
    assert ran.marks.counts["copy_failed"] == 1
    assert (job.requeues, job.chunks) == (1, 1)  # one forward in vain, the next one counts
    assert job.host_tokens > 0  # the second load-back landed
    assert job.first_token_s - job.loaded_s == pytest.approx(max(7, copy_us) * US)
    assert job.status is JobStatus.COMPLETED


def test_a_client_that_leaves_while_both_are_under_way_is_told_once():
    ended = []
    for after_us in range(1, 40, 2):
        outcomes = iter([0, 0, after_us % 4 == 1])
        clock = VirtualClock(draws=lambda label, bound, left=outcomes: int(next(left, 0)))
        compute = Fixed(step_s=7 * US, copy_s=11 * US)
        sessions = coming_back(abort_after_s=after_us * US)
        grain = Grain(copy_outcomes=2)
        ran = build(SETTINGS, sessions, compute=compute, limits=AHEAD, grain=grain)
        ended.append(judge(run(ran, clock, audits=True))["back"].status)
    assert set(ended) == {JobStatus.ABORTED, JobStatus.COMPLETED}


def test_nobody_begins_ahead_of_a_recurrent_state():
    settings = config(device=8, host=16, states=4, write_policy=WritePolicy.WRITE_THROUGH)
    compute = Fixed(step_s=7 * US, copy_s=5 * US)
    ran = build(settings, coming_back(28), compute=compute, limits=AHEAD)
    judge(run(ran, audits=True))
    assert ran["back"].host_tokens > 0
    assert ran["back"].loaded_s - ran["back"].matched_s == pytest.approx(5 * US)


def ahead(seed: int):
    settings, chat, limits, load = nasty(seed)
    return settings, chat, replace(limits, overlap=Overlap.LAYER), load


def begun_ahead(ran: Ran) -> int:
    return sum(job.host_tokens > 0 and job.loaded_s == job.matched_s for job in ran.jobs)


@pytest.mark.parametrize("way", ["clock", "fine", "failing", "search"])
def test_every_oracle_is_content_with_prefills_that_begin_ahead(way):
    early = 0
    for seed in range(20):
        found: list[Violation] = []
        watch = Watch(default_oracles("every"), on_violation=found.append, audit_every=50)
        more = {"world": ahead, "watch": watch}
        if way == "search":
            ran = searched(seed, **more)
        else:
            ran = on_clock(seed, fine=way == "fine", fails=way == "failing", **more)
        judge(ran)
        assert found == [], (seed, found[0])
        early += begun_ahead(ran)
    assert early > 0


def test_ranks_agree_on_what_a_prefill_began_ahead_of():
    told: Told = []
    early = failed = 0
    for seed in range(12):
        strategy = Uniform()
        strategy.begin(seed, None)
        grain = Grain(fine=seed % 2 == 1, copy_outcomes=4)
        ran = agreeing(run(ranked(2, told, grain=grain, limits=AHEAD), Search(strategy.member())))
        early += begun_ahead(ran)
        failed += ran.marks.counts["copy_failed"]
    assert told == []
    assert min(early, failed) > 0
