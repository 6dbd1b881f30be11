"""Small nasty worlds with storage, in every trouble: all ends, nothing stays, no wrong byte."""

from collections import Counter
from dataclasses import replace

import pytest

from cache.config import PoolPages, PrefetchPolicy, StorageConfig
from cache.storage.contract import ROOT, Page
from cache.storage.frame import HEADER_BYTES
from cache.storage.memory import MemoryStorage
from cache.storage.naming import identity_of
from cache.unified import UnifiedCache
from harness.engine.marks import STORAGE_MEANINGS
from harness.engine.storage_streams import StorageLink
from harness.engine.troubles import TROUBLES, Trouble, TroubledStorage, TroublePlan
from harness.engine.world import Grain
from harness.explore.pickers import Search, VirtualClock
from harness.explore.prng import SplitMix, derive
from harness.explore.strategies import Pos, Sticky, Uniform
from harness.oracles import Watch, default_oracles
from tests.harness.engine.build import Jitter, Ran, build, judge, nasty, run

IDENTITY = identity_of(world="nasty")
PAGE_BYTES = HEADER_BYTES + 8
LINK = StorageLink(read_bandwidth=1e6, write_bandwidth=1e6, latency_s=2e-6, slow_x=20.0)


def world(seed: int, *, fine: bool = False, policy: PrefetchPolicy | None = None) -> Ran:
    """One question to storage in eight meets trouble of some kind."""
    settings, chat, limits, load = nasty(seed)
    if not settings.hierarchical:
        full, swa = settings.full, settings.swa
        swa = None if swa is None else swa._replace(host=swa.device)
        settings = replace(settings, full=full._replace(host=full.device), swa=swa)
    rng = SplitMix(derive(seed, "trouble"))
    policies = list(PrefetchPolicy)
    storage = StorageConfig(
        policy or policies[seed % len(policies)],
        prefetch_threshold=(seed % 2) * settings.page_size,
        batch_pages=1 + seed % 3,
        prefetch_timeout_base_s=1e-5,
        prefetch_timeout_per_ki_token_s=1e-3,
    )
    if seed % 4 == 1 and settings.swa is not None:  # a host that loses windows
        least = settings.window_pages + 1
        settings = replace(settings, swa=settings.swa._replace(host=least))
    states = PoolPages(3 + seed % 4, 4 if seed % 8 == 3 else 2) if seed % 4 == 3 else None
    settings = replace(settings, storage=storage, mamba=states)
    backend = TroubledStorage(
        MemoryStorage(IDENTITY, (20 + 40 * (seed % 3)) * PAGE_BYTES),
        lambda: Trouble.NONE if rng.below(8) else TROUBLES[rng.below(len(TROUBLES))],
    )
    found = []
    watch = Watch(default_oracles("every"), on_violation=found.append, audit_every=50)

    def cache(config, observer):
        return UnifiedCache(config, observer, backend=backend, identity=IDENTITY)

    ran = build(
        settings,
        chat.sessions(),
        compute=Jitter(seed),
        limits=limits,
        load=load,
        grain=Grain(fine=fine, scattered=fine, copy_outcomes=2 if seed % 2 else 1),
        watch=watch,
        cache_type=cache,
        link=LINK,
    )
    ran.found = found
    return ran


def failing(seed: int) -> VirtualClock:
    rng = SplitMix(derive(seed, "copies"))
    return VirtualClock(draws=lambda label, bound: int(rng.below(3) == 0))


def judged(ran: Ran) -> Ran:
    judge(ran)
    assert ran.found == []
    return ran


@pytest.mark.parametrize("way", ["clock", "search"])
def test_every_request_ends_once_and_leaves_nothing_whatever_storage_does(way):
    marks: Counter[str] = Counter()
    tokens = 0
    for seed in range(40):
        fine = way == "search"
        ran = world(seed, fine=fine)
        if fine:
            strategy = (Uniform, Sticky, Pos)[seed % 3]()
            strategy.begin(seed, None)
            run(ran, Search(strategy), steps=40_000)
        else:
            run(ran, failing(seed))
        marks.update(judged(ran).marks.counts)
        tokens += sum(job.storage_tokens for job in ran.jobs)
    never = {meaning.mark for meaning in STORAGE_MEANINGS if not marks[meaning.mark]}
    rare = {"prefetch_met_the_tree", "revived_meanwhile", "split_while_reviving", "window_revived"}
    assert never <= rare | ({"state_revived"} if fine else set())
    assert tokens > 0 or way == "search"


def test_the_same_seed_gives_the_same_world():
    first, second = (judged(run(world(4))).world.digest for _ in range(2))
    assert first == second


@pytest.mark.parametrize("policy", PrefetchPolicy)
def test_a_job_waits_for_storage_as_its_policy_says(policy):
    waits = []
    for seed in range(12):
        ran = judged(run(world(seed, policy=policy)))
        fetched = [job for job in ran.jobs if job.prefetch is not None and job.prefetch.arrived]
        waits += [job.admitted_s - job.sent_s for job in fetched if job.admitted_s >= 0]
    if policy is PrefetchPolicy.WAIT_COMPLETE:
        assert waits
        assert min(waits) >= 2 * LINK.latency_s


def test_a_plan_of_troubles_is_the_same_whatever_is_asked_and_when():
    one, two = TroublePlan(7), TroublePlan(7)
    late = one.at(500.0)
    assert [two.at(float(s)) for s in range(501)][-1] is late
    assert [one.at(float(s)) for s in range(501)] == [two.at(float(s)) for s in range(501)]
    assert TroublePlan(8).at(0.0) is Trouble.NONE


def test_a_plan_has_every_kind_of_trouble_in_time_and_is_calm_most_of_it():
    plan = TroublePlan(1)
    seen = Counter(plan.at(float(s)) for s in range(4000))
    assert set(seen) == set(Trouble)
    assert seen[Trouble.NONE] > 2000


def test_a_page_that_storage_gave_up_again_in_the_same_put_is_not_torn():
    class Forgetful(MemoryStorage):
        def put(self, pages):
            stored = super().put(pages)
            self.close()
            return stored

    storage = TroubledStorage(Forgetful(identity_of(world="torn"), 1000), lambda: Trouble.TORN)
    assert storage.put([Page(b"k" * 16, ROOT, b"page")]).pages == 1
    assert not storage.inner.blobs
