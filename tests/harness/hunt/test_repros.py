"""The smallest story of each fault: the faulty cache fails so again, the clean one passes."""

from pathlib import Path

import pytest

from harness.explore.replay import load, repeat
from harness.explore.tape import LenientReplay
from harness.faults import FAULTS
from harness.hunt.runner import ArenaRunner

FOLDER = Path(__file__).resolve().parents[2] / "repros"
STORIES = sorted(FOLDER.glob("*.json"))
FALSE_ALARMS = sorted(FOLDER.with_name("repros_clean").glob("*.json"))


def test_every_fault_has_its_story() -> None:
    told = {load(path).scenario["fault"] for path in STORIES}
    assert told == set(FAULTS)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_repeats_on_the_faulty_cache_and_not_on_the_clean_one(path: Path) -> None:
    replay = load(path)
    outcome = repeat(replay, ArenaRunner())
    assert outcome.verdict is not None
    clean = {**replay.scenario, "fault": ""}
    assert ArenaRunner().run(clean, LenientReplay(replay.tape)).verdict is None


@pytest.mark.parametrize("path", FALSE_ALARMS, ids=lambda path: path.stem)
def test_an_order_about_which_an_oracle_was_wrong_passes(path: Path) -> None:
    replay = load(path)
    outcome = ArenaRunner().run(replay.scenario, LenientReplay(replay.tape))
    assert outcome.verdict is None
    assert outcome.steps > replay.steps


def test_stories_are_short() -> None:
    steps = sorted(load(path).steps for path in STORIES)
    assert steps[len(steps) // 2] <= 5
    assert steps[-1] <= 20  # a window that is computed again while storage brings it takes so many


def test_the_seed_races_are_short_stories() -> None:
    for name in ("receiptless-release", "load-back-from-the-wrong-node"):
        (path,) = FOLDER.glob(f"{name}.*.json")
        replay = load(path)
        assert replay.steps <= 8
        assert len(set(replay.tape.order)) <= 3
