"""N1 alone sees every fault that serves wrong bytes, and nothing on the clean cache."""

from pathlib import Path

import pytest

from harness.explore.campaign import Campaign, default_portfolio
from harness.explore.replay import load, repeat
from harness.explore.tape import LenientReplay
from harness.model.arena import NumericsRunner
from harness.model.corpus import OneRank, candidates

FOLDER = Path(__file__).resolve().parents[2] / "repros_n1"
STORIES = sorted(FOLDER.glob("*.json"))
# Faults of the same families that logits cannot show, and why.
UNSEEN = {
    "load-back-from-the-wrong-node": "what cannot be served is not settled on: computed anew",
    "hit-counted-then-gone": "a miss: what is gone is computed anew",
    "window-not-loaded-back": "a miss: without its window nothing is served",
    "one-host-slot-twice": "the pool raises when the slot changes hands, before it is read",
    "hit-without-a-state": "the cache asserts that a state is there before it is gone on from",
    "hit-of-all-tokens": "nothing is left to compute, so there are no logits",
    "older-state-donated": "what is noted is wrong; a model writes every boundary that it passes",
    "no-host-lock-reentrant": "not in 2,700 worlds: a load-back that lost its source is refused",
    "window-not-fetched": "a miss: without its window what was fetched is not loaded",
    "run-grafted-without-its-state": "a miss: without its state nobody goes on from there",
    "graft-below-a-failing-backup": "a miss: a host copy without its parent is not loaded back",
    "persist-after-free": "not in 2,000 worlds: the slot must be taken again before it is sent, and"
    " what was sent be fetched by somebody later",
    "persists-what-is-filling": "not in 2,300 worlds: it must be sent before the backup lands, and"
    " lost by both tiers before somebody fetches it",
    "cancel-frees-what-is-being-written": "not in 700 worlds: the slot must be taken again and"
    " filled before the batch comes",
    "host-state-freed-under-the-copy": "not in 500 worlds: the slot is rarely used again in time",
}


def test_every_fault_of_content_is_seen_or_said_to_be_unseen() -> None:
    told = {load(path).scenario["fault"] for path in STORIES}
    assert told & set(UNSEEN) == set()
    assert told | set(UNSEEN) == set(candidates())


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_logits_tell_a_faulty_cache_from_a_clean_one(path: Path) -> None:
    replay = load(path)
    outcome = repeat(replay, NumericsRunner())
    assert outcome.verdict is not None
    assert outcome.verdict.oracle == "N1"
    clean = {**replay.scenario, "fault": ""}
    assert NumericsRunner().run(clean, LenientReplay(replay.tape)).verdict is None


def test_a_violation_names_request_position_layer_page_and_slot() -> None:
    replay = load(FOLDER / "pages-copied-in-reverse.json")
    verdict = repeat(replay, NumericsRunner()).verdict
    assert verdict is not None
    assert verdict.signature == "logits.full"
    for word in ("at position", "full layer 0, page", "in slot", "served from node"):
        assert word in verdict.message


@pytest.mark.parametrize("storage_share", [0.0, 1.0])
def test_random_orders_of_the_clean_cache_compute_what_scratch_computes(
    storage_share: float,
) -> None:
    campaign = Campaign(
        runner=NumericsRunner(),
        scenarios=OneRank(storage_share),
        strategy=default_portfolio(),
        seed=11,
    )
    report = campaign.run(elapsed=lambda: 0.0, budget_s=1.0, schedule_limit=12)
    assert report.schedules == 12
    assert report.findings == {}
    assert report.unrepeatable == []
