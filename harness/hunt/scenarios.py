"""Scenario files: TOML, one small world each; the folder is the budget.

micro/     searched exhaustively in every test run
fast/      a fixed number of schedules in every test run
slow/      for nightly hunts
negative/  must fail: with the fault that they name
"""

import tomllib
from pathlib import Path
from typing import Any

from harness.explore.outcome import Scenario
from harness.hunt.errors import ScenarioError
from harness.hunt.scenario import complete, config_of, swarm


def load_scenario(path: Path) -> Scenario:
    """The scenario in a file, completed. `ScenarioError` names the file and what is wrong."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path}: not TOML: {error}") from None
    _check_names(path, data)
    scenario = complete(data)
    try:
        config_of(scenario)
    except (ValueError, TypeError) as error:
        raise ScenarioError(f"{path}: {error}") from None
    return scenario


def load_scenarios(path: Path) -> list[Scenario]:
    """The scenario in a file, or all those in a folder and below it, by name."""
    if not path.is_dir():
        return [load_scenario(path)]
    found = sorted(path.rglob("*.toml"))
    if not found:
        raise ScenarioError(f"{path}: no *.toml in this folder")
    return [load_scenario(file) for file in found]


def _check_names(path: Path, data: dict[str, Any]) -> None:
    known = {"grain", "fault", "about", "preemptions", *swarm("fine").knobs}
    unknown = sorted(set(data) - known)
    if unknown:
        raise ScenarioError(
            f"{path}: unknown {', '.join(unknown)}; known are {', '.join(sorted(known))}"
        )
    if data.get("grain", "scheduler") not in ("scheduler", "fine"):
        raise ScenarioError(f"{path}: grain must be scheduler or fine, not {data['grain']!r}")
