"""The clean cache under the whole engine, every oracle on, in small and nasty configurations."""

from dataclasses import dataclass

import pytest

from cache.config import CacheConfig, EvictionOrder, PoolPages, WritePolicy
from cache.unified import UnifiedCache
from harness.engine.clients import Load
from harness.engine.compute import NullCompute
from harness.engine.job import Job
from harness.engine.marks import Marks
from harness.engine.scheduler import Limits
from harness.engine.world import Grain, World
from harness.explore.pickers import VirtualClock
from harness.explore.prng import SplitMix, derive
from harness.oracles import Violation, Watch, default_oracles
from workloads.arrivals import Burst
from workloads.synthetic.amounts import Uniform
from workloads.synthetic.chat import Chat

SEEDS = range(6)


@dataclass(frozen=True)
class Nasty:
    page_size: int
    device: int
    swa: int
    window: int
    ratio: float
    failing: bool = False

    def config(self, policy: WritePolicy, order: EvictionOrder) -> CacheConfig:
        return CacheConfig(
            page_size=self.page_size,
            full=PoolPages(self.device, int(self.device * self.ratio)),
            swa=PoolPages(self.swa, max(int(self.swa * self.ratio), self.ratio > 0))
            if self.window
            else None,
            window=self.window,
            write_policy=policy,
            device_eviction=order,
            host_eviction=order,
        )


CONFIGURATIONS = {
    "page 1": Nasty(page_size=1, device=90, swa=60, window=7, ratio=1.0),
    "page larger than the window": Nasty(page_size=16, device=12, swa=8, window=3, ratio=1.0),
    "window no multiple of the page": Nasty(page_size=4, device=30, swa=20, window=11, ratio=2.0),
    "a quarter of the host": Nasty(page_size=2, device=48, swa=30, window=9, ratio=0.25),
    "one tier": Nasty(page_size=2, device=44, swa=26, window=9, ratio=0.0),
    "full attention only": Nasty(page_size=2, device=44, swa=0, window=0, ratio=0.5),
    "copies that fail": Nasty(page_size=2, device=44, swa=30, window=9, ratio=1.0, failing=True),
}
ORDERS = tuple(EvictionOrder)


def soak(nasty: Nasty, policy: WritePolicy, seed: int) -> tuple[list[Violation], Marks, int]:
    config = nasty.config(policy, ORDERS[seed % len(ORDERS)])
    found: list[Violation] = []
    marks = Marks(config)
    watch = Watch(
        default_oracles("every"), listeners=[marks], on_violation=found.append, audit_every=23
    )
    cache = UnifiedCache(config, watch)
    watch.attach(cache)
    ended: list[Job] = []

    def on_job(job: Job) -> None:
        ended.append(job)
        marks.job_ended(job)

    chat = Chat(
        seed=seed,
        num_groups=2,
        num_clients=6,
        num_rounds=3,
        system_prompt_len=Uniform(4, 20),
        question_len=Uniform(1, 9),
        output_len=Uniform(1, 12),
        think_time_s=Uniform(0, 0.00002),
        abort_share=0.2,
        abort_after_s=Uniform(0, 0.00004),
        priority_levels=2,
        arrivals=Burst(3, 0.00005),
        namespace_share=0.5,
    )
    world = World(
        cache,
        NullCompute(),
        chat.sessions(),
        limits=Limits(context_length=120, chunked_prefill_size=16),
        load=Load(),
        vocab_size=50,
        grain=Grain(copy_outcomes=4 if nasty.failing else 1),
        on_accept=lambda job: None,
        on_job=on_job,
        on_gap=lambda seconds, count: None,
    )
    chance = SplitMix(derive(seed, "copies"))
    clock = VirtualClock(draws=lambda label, bound: int(chance.below(bound) == 1))
    result = world.run(clock, step_limit=200_000)
    if result.error is not None:
        raise result.error
    assert result.reason == "finished", result
    world.rest()
    watch.at_rest()
    return found, marks, len(ended)


@pytest.mark.parametrize("policy", list(WritePolicy), ids=str)
@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
def test_no_oracle_speaks_on_the_clean_cache(name: str, policy: WritePolicy) -> None:
    nasty = CONFIGURATIONS[name]
    reached: dict[str, int] = {}
    for seed in SEEDS:
        found, marks, ended = soak(nasty, policy, seed)
        assert found == [], (seed, found[:3])
        assert ended == 18
        for mark, count in marks.counts.items():
            reached[mark] = reached.get(mark, 0) + count
    assert reached["device_eviction"], "nothing was ever evicted: the pools are too large"
    if nasty.ratio:
        assert reached["backup_landed"]
        assert reached["load_back_landed"] or nasty.ratio < 1
    if nasty.window:
        assert reached["window_tombstoned"]
    if nasty.failing:
        assert reached["copy_failed"]
