"""Sweeps: every place is tried and no other, the clean cache holds, and one place is enough."""

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from cache.config import Tier
from harness.explore.outcome import Outcome, Scenario
from harness.explore.tape import LenientReplay
from harness.faults import fault_named
from harness.hunt.bases import Sweep, bases_of
from harness.hunt.refusals import AHEAD, APART, TIERS
from harness.hunt.runner import ArenaRunner
from harness.hunt.scenario import config_of
from harness.hunt.scenarios import load_scenario
from harness.hunt.sweep import KINDS, TROUBLE, Base, Swept, places, sweep, undisturbed

FOLDER = Path(__file__).resolve().parents[2] / "scenarios"
FILES = [path for budget in ("micro", "fast") for path in sorted((FOLDER / budget).glob("*.toml"))]
BUSY = load_scenario(FOLDER / "fast" / "three_requests_tiny_pools.toml")
LATE = load_scenario(FOLDER / "micro" / "prefetch_and_abort.toml")
TWO_RANKS = load_scenario(FOLDER / "micro" / "two_ranks_load_back.toml")
SMALL = load_scenario(FOLDER / "micro" / "write_back_eviction.toml")


def swept(path: Path, *kinds: str, fault: str = "", orders: int = 3) -> Swept:
    asked = Sweep(scenarios=(load_scenario(path),), orders=orders)
    runner = ArenaRunner(fault_named(fault) if fault else None)
    return sweep(runner, bases_of(asked), kinds or KINDS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_single_trouble_breaks_the_clean_cache(path: Path) -> None:
    orders = 3 if path.parent.name == "micro" else 2
    done = swept(path, orders=orders)
    assert done.complete
    assert done.hits == {}
    assert done.bases == 2 * orders, "both grains"
    expected = set(KINDS) - ({"copies"} if path.stem in COPIES_NOTHING else set())
    if not load_scenario(path)["storage"] or path.stem in ASKS_TOO_LATE:
        expected -= {"replies"}
    assert {kind for kind in KINDS if done.points[kind]} == expected


COPIES_NOTHING = {"two_ranks_prefetch"}  # write_back, and nothing has to go
ASKS_TOO_LATE = {"two_ranks_persist"}  # in these orders the only request is over by then


# (fault, trouble, the file of a world in which nothing else brings the fault out)
ALONE = [
    ("abort-leaks-a-page", "aborts", "load_back_under_pressure"),
    ("foreign-pin-overlap", "copies", "split_while_loading"),
    ("recovery-frees-locked-pages", "rooms", "revival_under_admission"),
    ("checksum-ignored", "replies", "prefetch_and_abort"),
]


@pytest.mark.parametrize(("fault", "kind", "world"), ALONE, ids=[row[0] for row in ALONE])
def test_a_sweep_finds_what_its_base_schedules_do_not(fault: str, kind: str, world: str) -> None:
    (path,) = FOLDER.rglob(f"{world}.toml")
    runner = ArenaRunner(fault_named(fault))
    for base in bases_of(Sweep(scenarios=(load_scenario(path),))):
        assert undisturbed(runner, base, kind).outcome.verdict is None
    others = [other for other in KINDS if other != kind]
    assert swept(path, *others, fault=fault).hits == {}
    found = swept(path, kind, fault=fault)
    assert found.complete
    assert 0 < found.hits.total() < found.points[kind], "some places bring it out, not all"
    finding = next(iter(found.findings.values()))
    assert finding.strategy == f"sweep ({kind})"
    assert finding.outcome.verdict is not None


def runs(base: Base, kind: str) -> list[tuple[Outcome, Outcome]]:
    runner = ArenaRunner()
    calm = undisturbed(runner, base, kind)
    return [
        (calm.outcome, runner.run(place.scenario, LenientReplay(place.tape)))
        for place in places(calm, kind)
    ]


@pytest.mark.parametrize("grain", ["scheduler", "fine"])
@pytest.mark.parametrize("order", [0, 2])
def test_each_client_leaves_once_before_each_step_of_the_base(grain: str, order: int) -> None:
    base = Base({**BUSY, "grain": grain}, order, 1)
    seen: dict[str, list[int]] = {}
    for calm, run in runs(base, "aborts"):
        (at,) = [at for at, task in enumerate(run.tape.order) if task.startswith("A")]
        assert run.tape.order[:at] == calm.tape.order[:at]
        seen.setdefault(run.tape.order[at], []).append(at)
    calm_order = undisturbed(ArenaRunner(), base, "aborts").outcome.tape.order
    begin = calm_order.count("setup")
    for client, places_ in seen.items():
        last = max(at for at, task in enumerate(calm_order) if task == f"R{client[1:]}")
        assert places_ == list(range(begin, last + 1))
    assert list(seen) == ["A0", "A1", "A2"]


@pytest.mark.parametrize(("kind", "world"), [("copies", BUSY), ("rooms", BUSY), ("replies", LATE)])
def test_each_draw_is_troubled_once_in_each_way_and_alone(kind: str, world: Scenario) -> None:
    troubled = []
    expected = Counter[str]()
    for calm, run in runs(Base(world, 0, 1), kind):
        draws = [(at, draw) for at, draw in enumerate(run.tape.draws) if draw.value]
        (one,) = [(at, draw) for at, draw in draws if draw.label in TROUBLE[kind]]
        troubled.append(one)
        expected = Counter[str]()
        for draw in calm.tape.draws:
            expected[draw.label] += draw.bound - 1 if draw.label in TROUBLE[kind] else 0
    assert len(set(troubled)) == len(troubled)
    assert Counter(draw.label for _, draw in troubled) == +expected
    assert set(expected) == set(TROUBLE[kind]) - set(APART.values())


def test_each_pool_of_each_rank_refuses_alone_at_each_agreement_on_room() -> None:
    base = Base(TWO_RANKS, 0, 1)
    calm = undisturbed(ArenaRunner(), base, "rooms").outcome
    drawn = [draw for draw in calm.tape.draws if draw.label in APART.values()]
    assert len({draw.label for draw in drawn}) >= 3
    of_a_tier = 2 * len(config_of(TWO_RANKS).components)
    pools = {label: of_a_tier * len(TIERS.get(subject, Tier)) for subject, label in APART.items()}
    assert all(draw.bound == 1 + AHEAD * pools[draw.label] for draw in drawn)
    refused = [
        draw
        for _, run in runs(base, "rooms")
        for draw in run.tape.draws
        if draw.label in APART.values() and draw.value
    ]
    assert len(refused) == AHEAD * sum(pools[draw.label] for draw in drawn)
    assert len(set(refused)) == AHEAD * sum(pools[label] for label in {d.label for d in drawn})


def test_a_sweep_that_runs_out_of_time_says_so() -> None:
    def enough(swept):
        return "the end of its time" if swept.points.total() == 20 else ""

    done = sweep(ArenaRunner(), [Base(BUSY, 0, 1)], enough=enough)
    assert not done.complete
    assert done.points.total() == 20
    assert str(done).startswith("stopped at the end of its time: ")


def test_a_base_that_fails_by_itself_is_a_finding_and_has_nothing_to_sweep() -> None:
    done = sweep(ArenaRunner(fault_named("canary")), [Base(BUSY, 0, 1)])
    assert done.points.total() == 0
    assert [finding.strategy for finding in done.findings.values()] == ["sweep (undisturbed)"]


def test_shares_of_a_sweep_add_up_to_the_whole() -> None:
    asked = Sweep(scenarios=(SMALL,), orders=3)
    total = Swept()
    for job in range(2):
        total.merge(sweep(ArenaRunner(), islice(bases_of(asked), job, None, 2)))
    assert str(total) == str(sweep(ArenaRunner(), bases_of(asked)))


def test_without_files_worlds_are_drawn_from_the_seed() -> None:
    first, again, other = (
        [base.scenario for base in islice(bases_of(Sweep(seed=seed)), 6)] for seed in (1, 1, 2)
    )
    assert first == again != other
    assert [world["grain"] for world in first] == ["scheduler", "fine"] * 3
