"""Whole worlds: small and nasty ones by the hundred; and the same seed gives the same run."""

import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from cache.config import Component, Tier, WritePolicy
from cache.null import NullCache
from cache.pools import Owner
from cache.unified import UnifiedCache
from harness.engine.compute import NullCompute
from harness.engine.job import JobStatus
from harness.engine.marks import COMPANIONS_MEANINGS, MEANINGS, STORAGE_MEANINGS
from harness.engine.scheduler import Limits
from harness.engine.world import Grain
from harness.explore.pickers import Search, VirtualClock
from harness.explore.prng import SplitMix, derive
from harness.explore.strategies import PctRange, Pos, Sticky, Strategy, Uniform
from harness.explore.tape import StrictReplay
from harness.oracles import Watch, default_oracles
from tests.harness.engine.build import (
    Fixed,
    Jitter,
    Livelock,
    Ran,
    alone,
    build,
    config,
    judge,
    nasty,
    request,
    run,
    stateful,
)

US = 1e-6
STRATEGIES: dict[str, type[Strategy]] = {"uniform": Uniform, "sticky": Sticky, "pos": Pos}
# Which no configuration of this sweep can reach, or hardly: the anchor is locked on both tiers.
ELSEWHERE = {meaning.mark for meaning in (*STORAGE_MEANINGS, *COMPANIONS_MEANINGS)}
RARE = {"load_back_went_stale", *ELSEWHERE}
# The engine asks for pages when the copies have landed, and runs no job without two states for it.
RARE_STATES = {"state_forked_on_landing", "state_gave_way"}
MARKS = [meaning.mark for meaning in MEANINGS]
APART = {mark for mark in MARKS if mark.startswith("ranks_")}  # these worlds have one rank
STORED = {"state_persisted", "state_prefetched", "state_revived"}  # and no storage
STATES = {mark for mark in MARKS if mark.startswith("state_")} - STORED


def built(seed: int, *, grain: Grain | None = None, world=nasty, **more) -> Ran:
    settings, chat, limits, load = world(seed)
    compute = Jitter(seed) if seed % 3 else NullCompute()
    return build(
        settings, chat.sessions(), compute=compute, limits=limits, load=load, grain=grain, **more
    )


def searched(seed: int, *, audits: bool = False, **more) -> Ran:
    """A nasty world under a search: grain, arrivals and copies that fail are drawn too."""
    rng = SplitMix(derive(seed, "search"))
    grain = Grain(
        fine=bool(rng.below(2)), scattered=bool(rng.below(2)), copy_outcomes=1 + rng.below(2)
    )
    strategy = rng.choice(list(STRATEGIES.values()))()
    strategy.begin(seed, None)  # type: ignore[arg-type]
    return run(built(seed, grain=grain, **more), Search(strategy), audits=audits, steps=20_000)


def failing(seed: int) -> VirtualClock:
    rng = SplitMix(derive(seed, "copies"))
    return VirtualClock(draws=lambda label, bound: int(rng.below(3) == 0))


def on_clock(seed: int, *, fine: bool = False, fails: bool = False, **more) -> Ran:
    grain = Grain(fine=fine, copy_outcomes=2 if fails else 1)
    return run(built(seed, grain=grain, **more), failing(seed) if fails else None)


WAYS = {
    "clock": lambda seed: on_clock(seed),
    "fine": lambda seed: on_clock(seed, fine=True),
    "failing": lambda seed: on_clock(seed, fails=True),
    "null": lambda seed: on_clock(seed, cache_type=NullCache),
    "search": lambda seed: searched(seed),
}


def total(rans) -> Counter[str]:
    """The marks of many runs, and what became of their requests."""
    found: Counter[str] = Counter()
    for ran in rans:
        found.update(judge(ran).marks.counts)
        found.update(job.status.value for job in ran.jobs)
    print({name: count for name, count in found.items() if count})
    return found


# -- the sweep -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_every_request_of_small_nasty_worlds_ends_once_and_leaves_nothing(way):
    found = total(WAYS[way](seed) for seed in range(110))
    assert min(found[status.value] for status in JobStatus) > 60
    reached = {meaning.mark for meaning in MEANINGS if found[meaning.mark]}
    expected = {
        "chunked_prefill",
        "retraction",
        "abort_while_queued",
        "abort_while_running",
    }
    if way != "null":
        expected = set(MARKS) - RARE - STATES - STORED - APART
        expected -= {"copy_failed", "follower_doomed"} if way in ("clock", "fine") else set()
        expected -= {"insert_blocked", "abort_while_loading", "load_backs_overlapped"}
    assert expected <= reached


STATEFUL = {
    "clock": lambda seed: on_clock(seed, world=stateful),
    "fine": lambda seed: on_clock(seed, fine=True, world=stateful),
    "failing": lambda seed: on_clock(seed, fails=True, world=stateful),
    "null": lambda seed: on_clock(seed, cache_type=NullCache, world=stateful),
    "search": lambda seed: searched(seed, world=stateful),
}


@pytest.mark.parametrize("way", STATEFUL)
def test_every_request_of_a_model_with_recurrent_layers_ends_once_and_leaves_nothing(way):
    found = total(STATEFUL[way](seed) for seed in range(80))
    assert min(found[status.value] for status in JobStatus) > 30
    if way != "null":
        assert {mark for mark in STATES if not found[mark]} <= RARE_STATES


@pytest.mark.parametrize("way", ["clock", "failing", "search"])
def test_the_audit_is_clean_before_every_step(way):
    audits = 0
    for seed in range(1000, 1008):
        if way == "search":
            ran = searched(seed, audits=True)
        else:
            grain = Grain(copy_outcomes=2 if way == "failing" else 1)
            ran = run(built(seed, grain=grain), failing(seed), audits=True)
        audits += judge(ran).audits
    assert audits > 3_000


def test_no_oracle_objects_to_a_clean_cache():
    """Every oracle on, on the clock and under a search."""
    for seed in range(2000, 2030):
        violations = []
        watch = Watch(default_oracles("every"), on_violation=violations.append)
        ran = built(seed, watch=watch, grain=Grain(fine=bool(seed % 2)))
        strategy = Uniform()
        strategy.begin(seed, None)  # type: ignore[arg-type]
        run(ran, Search(strategy) if seed % 3 else None)
        assert ran.ended.error is None
        ran.world.rest()
        watch.at_rest()
        assert violations == []


def test_pct_schedules_end_too():
    for seed in range(3000, 3040):
        strategy = PctRange()
        strategy.begin(seed, Estimated())
        grain = Grain(fine=bool(seed % 2), scattered=bool(seed % 3))
        judge(run(built(seed, grain=grain), Search(strategy), steps=50_000))


class Estimated:
    choices = 200.0


def test_the_judge_sees_a_slot_that_was_not_given_back():
    class Leaky(UnifiedCache):
        def finish(self, table, key):
            self.pools[Tier.DEVICE, Component.FULL].allocate(1, Owner.REQUEST)
            return super().finish(table, key)

    ran = run(build(config(), alone(request("r", 4, 1)), cache_type=Leaky))
    with pytest.raises(AssertionError, match=r"owner\.device_full"):
        judge(ran)


def test_the_judge_sees_a_page_of_another_prefix():
    class Careless(UnifiedCache):
        def write(self, table, prints, tokens):
            super().write(table, [value ^ 1 for value in prints], tokens)

    ran = run(build(config(), alone(request("r", 24, 8)), cache_type=Careless))
    with pytest.raises(AssertionError, match="foreign FULL pages"):
        judge(ran)


def test_the_judge_sees_a_request_that_is_never_served():
    class Stingy(UnifiedCache):
        def available(self, component):
            return 0

    ran = run(build(config(), alone(request("r", 4, 1)), cache_type=Stingy))
    with pytest.raises((AssertionError, Livelock)):
        judge(ran)


# -- the same seed, the same run -------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_the_same_seed_gives_the_same_run(way):
    digests = []
    for seed in range(12):
        first, second = WAYS[way](seed), WAYS[way](seed)
        assert first.world.digest == second.world.digest
        assert first.ended.digest == second.ended.digest
        assert first.marks.counts == second.marks.counts
        digests.append(first.world.digest)
    assert len(set(digests)) == len(digests)


def test_the_digest_tells_different_traffic_apart():
    digests = {
        judge(run(build(config(), alone(request("r", prompt, output))))).world.digest
        for prompt, output in ((20, 5), (20, 6), (24, 5), (24, 6))
    }
    assert len(digests) == 4


@pytest.mark.parametrize("seed", range(6))
def test_a_recorded_search_repeats_step_by_step(seed):
    grain = Grain(fine=True, scattered=True, copy_outcomes=2)
    strategy = Uniform()
    strategy.begin(seed, None)  # type: ignore[arg-type]
    search = Search(strategy)
    first = judge(run(built(seed, grain=grain), search))
    again = judge(run(built(seed, grain=grain), Search(StrictReplay(search.tape))))
    assert again.world.digest == first.world.digest
    assert again.ended.digest == first.ended.digest


DIGESTS = """
from tests.harness.engine.test_world import WAYS
for way in ("clock", "fine", "failing", "search"):
    for seed in range(4):
        ran = WAYS[way](seed)
        print(way, seed, ran.world.digest, ran.ended.digest)
"""


def test_the_digest_does_not_depend_on_the_hash_seed():
    root = Path(__file__).resolve().parents[3]
    printed = set()
    for hash_seed in ("0", "4242"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)}
        done = subprocess.run(
            [sys.executable, "-c", DIGESTS], cwd=root, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        printed.add(done.stdout)
    assert len(printed) == 1
    assert len(printed.pop().splitlines()) == 16


# -- times -----------------------------------------------------------------------------------------


def test_the_parts_of_the_time_to_first_token_add_up():
    """Queue, match, load and prefill, each known exactly."""
    settings = config(device=8, host=16, write_policy=WritePolicy.WRITE_THROUGH)
    requests = [
        request("evicted", 24, 2, stream=1),
        request("other", 24, 2, stream=2, arrival_s=0.001),
        request("back", 24, 2, stream=1, arrival_s=0.002),
    ]
    compute, limits = Fixed(step_s=7 * US, copy_s=5 * US), Limits(match_s=3 * US)
    job = judge(run(build(settings, alone(*requests), compute=compute, limits=limits)))["back"]
    assert job.host_tokens > 0
    assert job.admitted_s - job.sent_s == pytest.approx(0.0)
    assert job.matched_s - job.admitted_s == pytest.approx(3 * US)
    assert job.loaded_s - job.matched_s == pytest.approx(5 * US)
    assert job.first_token_s - job.loaded_s == pytest.approx(7 * US)
    assert job.end_s - job.first_token_s == pytest.approx(7 * US)


@pytest.mark.parametrize("fine", [False, True])
def test_the_parts_never_run_backwards(fine):
    parts = 0
    for seed in range(4000, 4040):
        for job in judge(on_clock(seed, fine=fine)).jobs:
            if job.first_token_s < 0:
                continue
            moments = [job.sent_s, job.admitted_s, job.matched_s, job.loaded_s, job.first_token_s]
            steps = [after - before for before, after in pairwise(moments)]
            assert min(steps) >= 0
            assert sum(steps) == pytest.approx(job.first_token_s - job.sent_s)
            parts += 1
    assert parts > 100


def test_a_hit_counts_what_the_first_admission_found():
    requests = [request("a", 40, 1, stream=1), request("b", 44, 1, stream=1, arrival_s=1.0)]
    ran = judge(run(build(config(), alone(*requests))))
    assert (ran["a"].device_tokens, ran["a"].host_tokens) == (0, 0)
    assert (ran["b"].device_tokens, ran["b"].host_tokens) == (40, 0)
