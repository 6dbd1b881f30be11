"""Random operations: the sound cache is silent, and every seeded defect is caught by its oracle."""

from collections import Counter

import pytest

from harness.oracles import FAMILIES
from tests.harness.oracles import service_defects, slot_defects
from tests.harness.oracles.defect import Defect
from tests.harness.oracles.driver import Driver

DEFECTS = [*slot_defects.DEFECTS, *service_defects.DEFECTS]

SEEDS = 120
REACHED = (
    "hit",
    "ISSUED",
    "JOINED",
    "NO_ROOM",
    "TOO_SHORT",
    "blocked",
    "tombstone",
    "revived_under_lock",
    "narrowed",
    "split_in_flight",
    "backup_failed",
    "load-back_failed",
    "load-back_done",
    "doomed",
    "dropped_HOST_FULL",
    "dropped_HOST_SWA",
    "failed_wait",
    "aborted",
    "short",
)


def test_a_sound_cache_is_silent_and_the_run_was_not_empty():
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        driven = Driver(seed).run()
        assert driven.violations == [], seed
        counts += driven.counts
    assert [mark for mark in REACHED if not counts[mark]] == []
    assert counts["ISSUED"] > 50
    assert counts["tombstone"] > 500


STATES = ("forked", "gave_way", "state_loaded", "state_tombstone", "dropped_HOST_MAMBA", "doomed")


def test_a_sound_cache_with_recurrent_states_is_silent_and_the_run_was_not_empty():
    counts: Counter[str] = Counter()
    for seed in range(20_000, 20_000 + SEEDS):
        driven = Driver(seed, stateful=True).run()
        assert driven.violations == [], seed
        counts += driven.counts
    assert [mark for mark in STATES if not counts[mark]] == []
    assert counts["forked"] > 50


@pytest.mark.parametrize("seed", range(5_000, 5_006))
def test_a_sound_cache_is_silent_under_an_audit_after_every_operation(seed):
    assert Driver(seed, audit_every=1).run().violations == []


@pytest.mark.parametrize("seed", [40_582, 50_424, 51_340])
def test_what_a_leaving_node_is_to_free_is_not_promised_and_then_denied(seed):
    """Under write_back, a window that is backed up later must not make its node's leaving smaller,
    nor may a child or a second backup of its own."""
    assert Driver(seed).run().violations == []


@pytest.mark.parametrize("seed", [49_557, 49_642, 51_045])
def test_a_leaving_node_is_not_about_to_go_until_its_last_child_is_gone(seed):
    assert Driver(seed).run().violations == []


@pytest.mark.stress
def test_a_sound_cache_is_silent_for_thousands_of_seeds():
    loud = [seed for seed in range(10_000, 14_000) if Driver(seed).run().violations]
    assert loud == []


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_seeded_defect_is_caught_by_its_oracle(defect: Defect):
    for seed in range(40):
        violations = Driver(seed, tamper=defect.tamper).run().violations
        if violations:
            assert violations[0].oracle in defect.caught_by, (seed, violations[0])
            return
    raise AssertionError(f"{defect.name} was never seen")


@pytest.mark.parametrize("name", [family.name for family in FAMILIES])
def test_the_others_stay_silent_on_a_sound_cache_without_one(name):
    for seed in range(60, 66):
        assert Driver(seed, without=(name,)).run().violations == []


def test_the_same_seed_finds_the_same():
    tamper = DEFECTS[0].tamper
    first, second = (Driver(3, tamper=tamper).run() for _ in range(2))
    assert first == second
