"""An engine over several ranks: they agree whatever their copies do, and pay for agreeing."""

import pytest

from cache.config import CacheConfig, PoolPages, Tier, WritePolicy
from cache.observer import Observer
from cache.ranks import RankedCache
from cache.unified import UnifiedCache
from harness.engine.world import Grain
from harness.explore.pickers import Search
from harness.explore.strategies import Uniform
from harness.oracles import Ranks
from tests.harness.engine.build import Fixed, Ran, alone, build, judge, request, run

US = 1e-6
Told = list[tuple[object, ...]]


def settings() -> CacheConfig:
    return CacheConfig(
        page_size=4,
        full=PoolPages(16, 64),
        swa=PoolPages(16, 64),
        window=8,
        write_policy=WritePolicy.WRITE_THROUGH,
    )


def traffic(count: int = 9):
    """Three prefixes too many for the device: they go and come back."""
    return alone(
        *(request(f"r{i}", 21 + i, 3, stream=i % 3, arrival_s=i * 20 * US) for i in range(count))
    )


def ranked(ranks: int, told: Told, **more) -> Ran:
    between = Ranks(ranks, lambda *finding: told.append(finding))

    def cache_type(config: CacheConfig, observer: Observer) -> RankedCache:
        watched = [observer, *between.journals[1:]]
        return RankedCache([UnifiedCache(config, own) for own in watched], between)

    first = between.journals[:1]
    return build(settings(), traffic(), cache_type=cache_type, watchers=first, **more)


def agreeing(ran: Ran) -> Ran:
    """Judged, and with equal pools and nothing held on any rank."""
    judge(ran)
    for rank in ran.cache.ranks:
        assert isinstance(rank, UnifiedCache)
        assert len(rank.locks) == len(rank.transfers) == 0
        assert all(pool.free_slots == pool.capacity for pool in rank.pools.values())
    return ran


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_agree_on_the_virtual_clock(ranks: int):
    told: Told = []
    ran = agreeing(run(ranked(ranks, told)))
    assert told == []
    assert ran.cache.agreed > 0
    assert ran.marks.counts["load_back_landed"] > 0


def test_ranks_agree_when_copies_run_and_fail_at_any_time():
    told: Told = []
    failed = 0
    for seed in range(20):
        strategy = Uniform()
        strategy.begin(seed, None)
        grain = Grain(fine=seed % 2 == 1, copy_outcomes=4)
        ran = agreeing(run(ranked(2, told, grain=grain), Search(strategy.member())))
        failed += ran.marks.counts["copy_failed"]
    assert told == []
    assert failed > 0


def test_the_same_ranks_do_the_same_again():
    digests = {run(ranked(2, [])).world.digest for _ in range(2)}
    assert len(digests) == 1


def test_an_agreement_takes_its_time():
    def seconds(agreement_s: float) -> float:
        compute = Fixed()
        compute.agreement_s = lambda: agreement_s  # type: ignore[method-assign]
        ran = agreeing(run(ranked(2, [], compute=compute)))
        return max(job.end_s for job in ran.jobs)

    assert seconds(50 * US) > seconds(1 * US)


def test_one_rank_agrees_with_nobody():
    ran = judge(run(build(settings(), traffic())))
    assert ran.cache.agreed == 0
    names = {task.name for task in ran.world.kernel.tasks}
    assert {"h2d", "d2h"} <= names
    assert not {"h2d1", "d2h1"} & names


def test_each_rank_has_streams_of_its_own():
    ran = run(ranked(2, []))
    names = {task.name for task in ran.world.kernel.tasks}
    assert {"h2d", "d2h", "h2d1", "d2h1"} <= names
    assert ran.world.streams.bytes_moved[Tier.HOST] > 0
