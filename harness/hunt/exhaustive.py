"""Every order of a micro scenario, with equal states met only once."""

import time
from typing import Any, NamedTuple

from harness.explore.campaign import Finding
from harness.explore.exhaust import UNLIMITED, Bounds, Exhausted, exhaust
from harness.explore.outcome import Scenario
from harness.faults import fault_named
from harness.hunt.findings import Told, work_out
from harness.hunt.runner import ArenaRunner


class Searched(NamedTuple):
    result: Exhausted
    told: list[Told]

    def record(self) -> dict[str, Any]:
        return {
            "complete": self.result.complete,
            "stopped_at": self.result.stopped_at,
            "states": self.result.states,
            "schedules": self.result.schedules,
            "steps": self.result.steps,
            "kinds": [one.kind for one in self.told],
        }


def search_exhaustively(
    scenario: Scenario,
    fault: str,
    *,
    budget_s: float,
) -> Searched:
    """Run every order, or as many as the budget allows; at most as many preemptions as the
    scenario's file says, if it does."""
    started = time.monotonic()
    bounds = Bounds(preemptions=scenario.get("preemptions", UNLIMITED))
    runner = ArenaRunner(fault_named(fault) if fault else None)
    result = exhaust(
        lambda chooser: runner.run(scenario, chooser),
        bounds=bounds,
        go_on=lambda: time.monotonic() - started < budget_s,
    )
    told = [
        work_out(Finding(scenario, outcome, "exhaustive", 0, 0, 0.0), fault)
        for outcome in result.found
    ]
    return Searched(result, told)
