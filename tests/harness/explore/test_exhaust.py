"""Exhaustive search: counts known by arithmetic, reductions that lose nothing, honest endings."""

from math import comb

import pytest

from harness.explore.exhaust import Bounds, exhaust
from harness.explore.kernel import Kernel
from harness.explore.outcome import Outcome, Scenario
from harness.explore.pickers import Chooser
from tests.harness.explore.models import (
    Deadlock,
    Flaky,
    Judge,
    Livelock,
    LostUpdate,
    Orders,
    Tombstone,
)


class Unhashed:
    """A model without its state key: plain search."""

    def __init__(self, model: Tombstone | LostUpdate | Deadlock | Orders) -> None:
        self._model = model

    def run(self, scenario: Scenario, chooser: Chooser) -> Outcome:
        build = self._model.build

        def without(kernel: Kernel, scenario: Scenario, sometimes: dict[str, int]) -> Judge:
            judge = build(kernel, scenario, sometimes)
            kernel.state_key = None
            return judge

        self._model.build = without  # type: ignore[method-assign]
        try:
            return self._model.run(scenario, chooser)
        finally:
            self._model.build = build  # type: ignore[method-assign]


SMALL: list[tuple[type[Tombstone | LostUpdate | Deadlock | Orders], Scenario]] = [
    (LostUpdate, {"tasks": 2}),
    (LostUpdate, {"tasks": 3}),
    (LostUpdate, {"tasks": 2, "idle": 1}),
    (Deadlock, {"ordered": True}),
    (Deadlock, {"ordered": False}),
]
RACES: list[tuple[type[Tombstone | LostUpdate | Deadlock | Orders], Scenario]] = [
    (
        Tombstone,
        {
            "nodes": 2,
            "slots": slots,
            "reads": 1,
            "fault": fault,
            "oracle": oracle,
            "requests": [{"id": 0, "node": 0}],
            "probes": [{"id": 0, "node": 0}, {"id": 1, "node": 1}][:probes],
        },
    )
    for slots, probes in ((1, 1), (1, 2))
    for fault in (True, False)
    for oracle in ("ledger", "symptom")
]


def test_plain_search_runs_every_interleaving_once() -> None:
    result = exhaust(lambda c: Unhashed(LostUpdate()).run({"tasks": 2}, c))
    assert result.complete
    assert result.schedules == comb(4, 2)
    result = exhaust(lambda c: Unhashed(LostUpdate()).run({"tasks": 3}, c))
    assert result.schedules == 90  # 6! / (2! 2! 2!)
    assert str(result) == "complete: 90 schedules, 1 kinds of violations"


@pytest.mark.parametrize(("model", "scenario"), [*SMALL, *RACES])
def test_a_reduced_search_finds_what_the_plain_one_finds(
    model: type[Tombstone | LostUpdate | Deadlock | Orders], scenario: Scenario
) -> None:
    plain_ends, reduced_ends = set[str](), set[str]()

    def end(outcome: Outcome) -> str:
        return outcome.verdict.kind + outcome.verdict.message if outcome.verdict else "pass"

    plain = exhaust(
        lambda c: Unhashed(model()).run(scenario, c),
        on_outcome=lambda outcome: plain_ends.add(end(outcome)),
    )
    reduced = exhaust(
        lambda c: model().run(scenario, c),
        on_outcome=lambda outcome: reduced_ends.add(end(outcome)),
    )
    assert plain.complete
    assert reduced.complete
    assert reduced.states > 0
    assert plain_ends - {"pass"} == reduced_ends - {"pass"}
    assert reduced.schedules < plain.schedules or plain.schedules <= 10


def test_states_differ_when_the_scenario_says_so() -> None:
    result = exhaust(lambda c: Orders().run({"names": "abc"}, c))
    assert result.complete
    assert len(result.found) == 5  # all orders of three names but the first
    assert result.schedules < 90  # 6! / (2! 2! 2!)


@pytest.mark.parametrize("preemptions", range(5))
@pytest.mark.parametrize(
    ("model", "scenario"), [(Orders, {"names": "abcd"}), (LostUpdate, {"tasks": 4}), RACES[4]]
)
def test_a_reduced_search_within_a_bound_finds_what_the_plain_one_finds(
    model: type[Tombstone | LostUpdate | Deadlock | Orders], scenario: Scenario, preemptions: int
) -> None:
    bounds = Bounds(preemptions=preemptions)
    plain, reduced = (
        exhaust(lambda c, world=world: world.run(scenario, c), bounds=bounds)  # type: ignore[misc]
        for world in (Unhashed(model()), model())
    )
    assert plain.complete
    assert reduced.complete
    kinds = [{o.verdict.kind for o in found if o.verdict} for found in (plain.found, reduced.found)]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("oracle", ["ledger", "symptom"])
def test_the_fixed_tombstone_cache_holds_in_every_order(oracle: str) -> None:
    scenario = {
        "nodes": 2,
        "slots": 2,
        "reads": 1,
        "fault": False,
        "oracle": oracle,
        "requests": [{"id": 0, "node": 0}, {"id": 1, "node": 1}],
        "probes": [{"id": 0, "node": 0}],
    }
    result = exhaust(lambda c: Tombstone().run(scenario, c))
    assert result.complete
    assert result.found == ()
    assert result.states > 100


def test_a_deadlock_is_found_only_where_there_is_one() -> None:
    broken = exhaust(lambda c: Deadlock().run({"ordered": False}, c))
    assert [o.verdict.kind for o in broken.found if o.verdict] == ["progress.deadlock"]
    assert "lock 0" in str(broken.found[0].verdict)
    assert exhaust(lambda c: Deadlock().run({"ordered": True}, c)).found == ()


def test_one_preemption_is_enough_for_a_lost_update_and_none_is_not() -> None:
    def search(preemptions: int) -> int:
        bounds = Bounds(preemptions=preemptions)
        result = exhaust(lambda c: LostUpdate().run({"tasks": 2}, c), bounds=bounds)
        assert result.complete
        return len(result.found)

    assert [search(0), search(1)] == [0, 1]


def test_bounds_grow_to_the_whole_search() -> None:
    runs = [
        exhaust(
            lambda c: Unhashed(LostUpdate()).run({"tasks": 3}, c), bounds=Bounds(preemptions=n)
        ).schedules
        for n in range(5)
    ]
    assert runs[0] == 6  # the orders of three tasks
    assert runs == sorted(runs)
    assert runs[-1] == 90
    assert str(Bounds(preemptions=2, faults=1)) == "at most 2 preemptions, 1 faults"


def test_a_visit_with_less_to_spend_does_not_stand_for_one_with_more() -> None:
    earlier = Bounds(preemptions=1, deviations=4, faults=2)
    assert earlier.covers(earlier)
    assert earlier.covers(Bounds(preemptions=0, deviations=4, faults=1))
    assert not earlier.covers(earlier._replace(preemptions=2))
    assert not earlier.covers(earlier._replace(deviations=5))
    assert not earlier.covers(earlier._replace(faults=3))


def test_a_sweep_of_single_faults_tries_every_fault_alone() -> None:
    bounds = Bounds(deviations=0, faults=1)
    outcomes: list[Outcome] = []
    result = exhaust(
        lambda c: Flaky().run({"copies": 4, "careful": True}, c),
        bounds=bounds,
        on_outcome=outcomes.append,
    )
    # The natural run, and each of four draws with each of two values other than 0; a careful copy
    # that failed draws again, and the budget is spent then.
    assert result.complete
    assert result.schedules == 1 + 4 * 2
    assert sum(o.marks.sometimes.get("copy failed", 0) for o in outcomes) == 4
    assert result.found == ()
    careless = exhaust(lambda c: Flaky().run({"copies": 4, "careful": False}, c), bounds=bounds)
    assert len(careless.found) == 1


def test_a_search_that_was_cut_short_says_so() -> None:
    def search(limit: int, hours: int) -> str:
        asked = iter(range(1000))
        return str(
            exhaust(
                lambda c: LostUpdate().run({"tasks": 3}, c),
                schedule_limit=limit,
                go_on=lambda: next(asked) < hours,
            )
        )

    assert search(5, 100).startswith("stopped at 5 schedules: ")
    assert search(1000, 3).startswith("stopped at the end of its time: ")
    livelock = exhaust(lambda c: Livelock().run({"leaves": False}, c), schedule_limit=30)
    assert livelock.stopped_at
    assert [o.verdict.kind for o in livelock.found if o.verdict] == ["progress.livelock"]
