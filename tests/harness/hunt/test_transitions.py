"""Transitions: the table lists what a sound cache can do, and a run counts what it did."""

from harness.explore.campaign import Campaign, default_portfolio
from harness.explore.tape import LenientReplay
from harness.faults import fault_named
from harness.hunt.runner import ArenaRunner
from harness.hunt.scenario import complete, swarm
from harness.hunt.sweep import Base, places, undisturbed
from harness.hunt.transitions import EVERY, POSSIBLE

NAMES = {str(move) for move in POSSIBLE}
FIRST = {
    "device": 12,
    "ratio": 1.0,
    "policy": "write_through",
    "requests": [{"shared": 3, "chunk": 3}],
}
# A prompt is cached, backed up and evicted from the device before its request comes.
DEMOTED = {**FIRST, "setup": [{"serve": True, "pages": 3}, {"full": 3}]}


def natural(world: dict[str, object], kind: str = "aborts") -> set[str]:
    base = Base(complete(world), 0, 1)
    return set(undisturbed(ArenaRunner(), base, kind).outcome.marks.transitions)


def test_every_transition_has_a_name_of_its_own() -> None:
    assert len({str(move) for move in EVERY}) == len(EVERY) == 180
    assert len(POSSIBLE) == 56


def test_a_first_request_inserts_and_is_backed_up() -> None:
    # The backup of the last page holds the path above it, where the first backup lands.
    assert natural(FIRST) == {
        "FULL device absent > ready, host absent free",
        "FULL host absent > filling, device ready free",
        "FULL host filling > ready, device ready free",
        "FULL host filling > ready, device ready held",
    }


def test_a_demoted_prompt_is_loaded_back_under_the_lock_of_its_admission() -> None:
    assert natural(DEMOTED) - natural(FIRST) == {
        "FULL device ready > absent, host ready free",
        "FULL device absent > filling, host ready held",
        "FULL device filling > ready, host ready held",
    }


def test_a_load_back_that_fails_gives_back() -> None:
    base = Base(complete(DEMOTED), 0, 1)
    seen: set[str] = set()
    for place in places(undisturbed(ArenaRunner(), base, "copies"), "copies"):
        seen |= set(ArenaRunner().run(*_under(place)).marks.transitions)
    assert "FULL device filling > absent, host ready held" in seen
    assert seen <= NAMES


def _under(place: object) -> tuple[object, LenientReplay]:
    return place.scenario, LenientReplay(place.tape)


def test_a_sound_cache_makes_no_other_transition_and_most_of_these() -> None:
    seen: set[str] = set()
    for grain in ("scheduler", "fine"):
        campaign = Campaign(
            runner=ArenaRunner(), scenarios=swarm(grain), strategy=default_portfolio(), seed=2
        )
        report = campaign.run(elapsed=lambda: 0.0, budget_s=1.0, schedule_limit=300)
        seen |= set(report.marks.transitions)
    assert seen <= NAMES
    assert len(seen) >= 28


def test_a_cache_that_evicts_what_is_held_leaves_the_table() -> None:
    runner = ArenaRunner(fault_named("victims-ignore-locks"), without=("structure", "locks"))
    campaign = Campaign(
        runner=runner, scenarios=swarm("fine"), strategy=default_portfolio(), seed=2
    )
    report = campaign.run(elapsed=lambda: 0.0, budget_s=1.0, schedule_limit=60)
    unsound = set(report.marks.transitions) - NAMES
    assert any(move.endswith("held") and "ready > absent" in move for move in unsound)
