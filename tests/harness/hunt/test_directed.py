"""Directed search in the arena: it reaches orders that a walk all but never comes to.

Counts are of schedules from fixed seeds, so they are the same on every machine.
"""

from pathlib import Path

import pytest

from harness.explore.campaign import Campaign, towards
from harness.explore.guided import Directed
from harness.explore.marks import Marks
from harness.explore.outcome import Scenario
from harness.explore.strategies import Strategy, Uniform
from harness.hunt.runner import ArenaRunner
from harness.hunt.scenarios import load_scenario

FOLDER = Path(__file__).resolve().parents[2] / "scenarios"
BUSY = load_scenario(FOLDER / "fast" / "three_requests_tiny_pools.toml")
# Orders that a walk of 200 schedules shows in two at most.
RARE = [
    "client.abort -> forward",
    "request.abort -> pressure",
    "forward -> request.arrive",
    "forward -> client.abort -> forward",
    "decode -> admit.lock -> decode",
]


class Fixed:
    def draw(self, seed: int) -> Scenario:
        return BUSY


def marks_of(strategy: Strategy, schedules: int) -> Marks:
    campaign = Campaign(runner=ArenaRunner(), scenarios=Fixed(), strategy=strategy, seed=1)
    return campaign.run(elapsed=lambda: 0.0, budget_s=1.0, schedule_limit=schedules).marks


def seen(marks: Marks, order: str) -> int:
    names = tuple(order.split(" -> "))
    return dict([*marks.pairs.items(), *marks.triples.items()]).get(names, 0)


@pytest.fixture(scope="module")
def walked() -> Marks:
    return marks_of(Uniform(), 200)


@pytest.mark.parametrize("order", RARE)
def test_an_order_that_a_walk_hardly_meets_is_headed_for(walked: Marks, order: str) -> None:
    assert seen(walked, order) <= 2, "one schedule in a hundred"
    assert seen(marks_of(towards(order), 30), order) >= 5, "one schedule in six"


def test_heading_for_what_is_unseen_shows_more_orders_than_walking(walked: Marks) -> None:
    aims = (*walked.unseen_pairs(), *walked.unseen_triples())
    directed = marks_of(Directed(aims, given=True), 100)
    fresh = len({*directed.pairs, *directed.triples} - {*walked.pairs, *walked.triples})
    further = marks_of(Uniform(), 300)  # the same walk and a hundred schedules more
    gained = len({*further.pairs, *further.triples} - {*walked.pairs, *walked.triples})
    assert fresh > 1.5 * gained, (fresh, gained)


@pytest.mark.parametrize("text", ["", "forward", "a ->", "a -> b -> c -> d"])
def test_what_is_no_order_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no order: two or three points"):
        towards(text)
