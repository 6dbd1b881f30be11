"""The catalogue: every fault is told, is put into one cache only, and is found."""

from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest

from cache.ranks import RankedCache
from cache.storage.naming import identity_of_rank
from cache.unified import UnifiedCache
from harness.explore.campaign import Campaign, Report, default_portfolio
from harness.explore.outcome import Scenario
from harness.explore.strategies import Uniform
from harness.faults import FAULTS, Fault, UnknownFault, fault_named, tampered_calls
from harness.faults.fault import Tampered
from harness.hunt.runner import ArenaRunner
from harness.hunt.scenario import complete, config_of, configs_of, swarm
from harness.hunt.storage import IDENTITY, storage_of

SCHEDULES = 6_000
SEED = 3
FAMILY_SIZES = {"S": 6, "O": 3, "L": 3, "C": 2, "D": 2, "M": 3, "P": 3, "R": 2, "E": 1}
ORACLES = {f"{name}{n + 1}" for name, size in FAMILY_SIZES.items() for n in range(size)} | {"crash"}
# Known races of released engines that concern FULL, SWA and MAMBA on device and host.
UPSTREAM = [
    "receiptless-release",
    "receiptless-state-release",
    "state-release-walks-to-the-root",
    "assert-instead-of-degrade",
    "only-state-dropped",
    "load-back-from-the-wrong-node",
    "shared-validator",
    "unbounded-release",
    "early-window-release-steals",
    "undrained-acknowledgements",
    "no-host-lock-reentrant",
    "no-host-lock-async",
    "foreign-pin-overlap",
    "demote-without-backup",
    "free-before-copied",
    "unbudgeted-window",
    "hit-counted-then-gone",
    "failed-copy-marked-done",
    "one-host-slot-twice",
    "recovery-frees-locked-pages",
    "out-of-window-inserted-live",
    "stale-map-entry",
    "window-block-listed-twice",
    "unbalanced-pins",
    "child-without-parent-backup",
    "split-while-writing",
    "backed-up-stub",
    "only-copy-dropped",
    "evict-the-demand",
    "tail-before-head",
    "split-while-persisting",
    "graft-under-lost-anchor",
    "partial-companion-prefetch",
    "companion-state-left-behind",
    "stub-hides-storage",
    "skipped-agreement",
    "rank-local-capacity",
]

every_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())


class BothGrains:
    """The scheduler grain and the fine one in turn."""

    def __init__(self, fault: Fault | None) -> None:
        self._drawn = 0
        self._shares = {} if fault is None else fault.shares

    def draw(self, seed: int) -> Scenario:
        self._drawn += 1
        grain = ("scheduler", "fine")[self._drawn % 2]
        return swarm(grain, **self._shares).draw(seed)


def hunt(fault: Fault | None, *, schedules: int, seed: int = SEED) -> Report:
    """Schedules until something is found."""
    campaign = Campaign(
        runner=ArenaRunner(fault),
        scenarios=BothGrains(fault),
        strategy=default_portfolio(),
        seed=seed,
    )
    return campaign.run(
        elapsed=lambda: 0.0,
        budget_s=1.0,
        schedule_limit=schedules,
        enough=lambda report: bool(report.findings),
    )


def built(**knobs: Any) -> UnifiedCache:
    """A cache with everything that a fault may tamper with."""
    rich = {"windowed": True, "window": 3, "ratio": 1.0, "device": 12, "states": 4}
    scenario = complete({**rich, "storage": [{}], **knobs})
    backend = storage_of(scenario)
    return UnifiedCache(config_of(scenario), backend=backend, identity=IDENTITY)


def built_ranks(**knobs: Any) -> RankedCache:
    """Two ranks, of which the second has more memory."""
    rich = {"windowed": True, "window": 3, "ratio": 1.0, "device": 12, "ranks": [{"spare": 2}]}
    scenario = complete({**rich, "storage": [{}], **knobs})
    backend = storage_of(scenario)
    return RankedCache(
        [
            UnifiedCache(config, backend=backend, identity=identity_of_rank(IDENTITY, rank, 2))
            for rank, config in enumerate(configs_of(scenario))
        ]
    )


def built_for(fault: Fault, **knobs: Any) -> UnifiedCache | RankedCache:
    return built(**knobs) if fault.between is None else built_ranks(**knobs)


def parts_of(cache: UnifiedCache | RankedCache) -> list[object]:
    if isinstance(cache, RankedCache):
        return [cache, *vars(cache).values(), *(p for rank in cache.ranks for p in parts_of(rank))]
    parts: list[object] = [
        cache,
        *vars(cache).values(),
        *cache.pools.values(),
        *cache.rules.values(),
        *(pool.store for pool in cache.pools.values()),
        *(beside for pool in cache.pools.values() for beside in pool.companions),
    ]
    if cache.storage is not None:
        parts += [*vars(cache.storage).values(), *vars(cache.storage.backend).values()]
    return parts


def tampered(cache: UnifiedCache | RankedCache) -> list[str]:
    """Where the cache's own parts, and those within them, have methods that are not theirs."""
    parts = parts_of(cache)
    for rank in cache.ranks:
        parts += [*rank.residency.victims.values(), rank.backups._hosts]
    return [
        f"{type(part).__name__}.{name}"
        for part in parts
        for name, value in getattr(part, "__dict__", {}).items()
        if isinstance(value, Tampered)
    ]


def code_of_classes(cache: UnifiedCache | RankedCache) -> dict[str, Callable[..., Any]]:
    """Every method of the cache and its parts, as the classes have them."""
    parts = parts_of(cache)
    return {
        f"{type(part).__qualname__}.{name}": value
        for part in parts
        for name, value in vars(type(part)).items()
        if callable(value) and type(part).__module__.startswith("cache")
    }


def test_names_are_words_and_say_what_they_are_filed_under() -> None:
    assert all(name == fault.name for name, fault in FAULTS.items())
    assert all(name.replace("-", "").isalnum() and name == name.lower() for name in FAULTS)
    families = [family for family, _ in groupby(fault.family for fault in FAULTS.values())]
    assert len(families) == len(set(families)), "a family is one file"


def test_what_broke_upstream_is_there_with_its_reference() -> None:
    assert [name for name in UPSTREAM if not FAULTS[name].reference] == []


def test_there_are_kinds_that_nobody_has_reported() -> None:
    assert sum(not fault.reference for fault in FAULTS.values()) >= 30


@every_fault
def test_it_is_told(fault: Fault) -> None:
    assert fault.summary.endswith(".")
    assert len(fault.summary) <= 120
    assert fault.story.endswith(".")
    assert fault.story != fault.summary
    assert fault.oracles
    assert set(fault.oracles) <= ORACLES


@every_fault
def test_it_is_put_into_one_cache_and_no_other(fault: Fault) -> None:
    """Nothing is changed that two caches share."""
    stateful = fault.family in ("states", "companions")
    stateful |= fault.apply.__module__.endswith("stored_states")
    world: dict[str, Any] = {"recurrent": stateful}
    if fault.family == "companions":
        owners = ("full", "mamba")
        world["accompanied"] = True
        world["companions"] = [
            {"owner": c, "own": own, "apart": own} for c in owners for own in (False, True)
        ]
    other = built_for(fault, **world)
    code = code_of_classes(other)
    cache = built_for(fault, policy="write_back", **world)
    fault.put_into(cache)
    assert tampered(other) == []
    assert code_of_classes(other) == code
    assert tampered_calls(other) == 0
    assert tampered(cache) != []


@every_fault
def test_it_is_found_by_an_oracle_that_is_named_for_it(fault: Fault) -> None:
    report = hunt(fault, schedules=SCHEDULES)
    assert not report.unrepeatable
    (finding,) = report.findings.values()
    verdict = finding.outcome.verdict
    assert verdict is not None
    assert verdict.oracle in fault.oracles, str(verdict)


def test_the_canary_is_found_at_once() -> None:
    report = hunt(fault_named("canary"), schedules=10)
    assert report.findings


def test_the_clean_cache_is_silent_after_faults_were_in_others() -> None:
    """With the same seed a clean hunt does the same, whatever was tampered with before."""
    before = hunt(None, schedules=30)
    for fault in FAULTS.values():
        ArenaRunner(fault).run(swarm("scheduler").draw(1), _first_come())
    after = hunt(None, schedules=30)
    assert before.findings == after.findings == {}
    assert (before.steps, before.marks.sometimes) == (after.steps, after.marks.sometimes)


def test_an_unknown_name_lists_close_ones_in_one_line() -> None:
    with pytest.raises(UnknownFault, match="receiptless-release") as error:
        fault_named("receiptles-release")
    assert "\n" not in str(error.value)


def _first_come() -> Uniform:
    strategy = Uniform()
    return strategy
