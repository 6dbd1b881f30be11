"""The scenario files: the folder is the budget, and negative ones must fail."""

from pathlib import Path

import pytest

from harness.explore.campaign import Campaign, default_portfolio
from harness.explore.outcome import Scenario
from harness.hunt.errors import ScenarioError
from harness.hunt.exhaustive import search_exhaustively
from harness.hunt.runner import ArenaRunner
from harness.hunt.scenarios import load_scenario

FOLDER = Path(__file__).resolve().parents[2] / "scenarios"
SCHEDULES = {"fast": 150, "negative": 200}


def files(budget: str) -> list[Path]:
    found = sorted((FOLDER / budget).glob("*.toml"))
    assert found, f"no scenario in {budget}"
    return found


class Fixed:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    def draw(self, seed: int) -> Scenario:
        return self.scenario


def hunt(path: Path, schedules: int) -> dict[str, int]:
    campaign = Campaign(
        runner=ArenaRunner(),
        scenarios=Fixed(load_scenario(path)),
        strategy=default_portfolio(),
        seed=1,
    )
    report = campaign.run(elapsed=lambda: 0.0, budget_s=1.0, schedule_limit=schedules)
    assert not report.unrepeatable
    return report.hits


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", files("micro"), ids=lambda path: path.stem)
def test_every_order_of_a_micro_scenario_holds(path: Path) -> None:
    searched = search_exhaustively(load_scenario(path), "", budget_s=240)
    assert searched.result.complete, str(searched.result)
    assert searched.told == []
    assert searched.result.states > 20, "a world without choices proves nothing"


@pytest.mark.parametrize("path", files("fast"), ids=lambda path: path.stem)
def test_fast_scenarios_hold(path: Path) -> None:
    assert hunt(path, SCHEDULES["fast"]) == {}


@pytest.mark.parametrize("path", files("slow"), ids=lambda path: path.stem)
def test_slow_scenarios_can_be_built_and_run(path: Path) -> None:
    assert hunt(path, 10) == {}


@pytest.mark.parametrize("path", files("negative"), ids=lambda path: path.stem)
def test_negative_scenarios_fail(path: Path) -> None:
    assert hunt(path, SCHEDULES["negative"]) != {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("page_size = ", "not TOML"),
        ("colour = 3", "unknown colour"),
        ('grain = "coarse"', "grain"),
        ('policy = "write_around"', "write_around"),
        ("page_size = 0", "page"),
    ],
)
def test_a_broken_scenario_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "world.toml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=says) as error:
        load_scenario(path)
    assert "world.toml" in str(error.value)
    assert "\n" not in str(error.value)
