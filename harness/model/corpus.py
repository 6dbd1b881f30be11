"""Writes tests/repros_n1 anew: for each fault that serves wrong bytes, a story that N1 alone sees.

python -m harness.model.corpus [FAULT ...]
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from harness.explore.campaign import Campaign, default_portfolio
from harness.explore.outcome import Outcome, Scenario
from harness.explore.pickers import Chooser
from harness.explore.prng import derive
from harness.explore.replay import FoundBy, replay_of, save
from harness.explore.shrink import shrink
from harness.explore.tape import Divergence, StrictReplay
from harness.faults import FAULTS, fault_named
from harness.hunt.findings import tool
from harness.hunt.scenario import simpler, swarm
from harness.model.arena import NumericsRunner, ReadRunner

FOLDER = Path("tests") / "repros_n1"  # of the checkout that it is called in
HUNT_S, SHRINK_S = 30.0, 4.0
GRAINS = ("scheduler", "fine")


class OneRank:
    """Worlds of either grain in turn, of one rank, without companions; so many with storage."""

    def __init__(self, storage_share: float = 0.0) -> None:
        self._drawn = 0
        self._storage_share = storage_share

    def draw(self, seed: int) -> Scenario:
        self._drawn += 1
        grain = GRAINS[self._drawn % len(GRAINS)]
        share = self._storage_share
        return swarm(grain, storage_share=share, ranks_share=0.0, companions_share=0.0).draw(seed)


def candidates() -> list[str]:
    """Faults that may lead to wrong bytes: their oracles say content, copies or validity. Those
    that need ranks or companions are none of a world with a model."""
    return [
        fault.name
        for fault in FAULTS.values()
        if not set(fault.needs) - {"storage"}
        and fault.between is None
        and {"C1", "C2", "D1", "M1"} & set(fault.oracles)
    ]


def find(name: str, budget_s: float = HUNT_S) -> Path | None:
    """Hunt one fault; the path of its story, None where N1 saw none.

    Orders in which a request reads what it should not are searched for with fingerprints, which
    take other time but no other decisions; N1 is then tried on each."""
    fault = fault_named(name)
    trial = _Trial(ReadRunner(fault), NumericsRunner(fault))
    campaign = Campaign(
        runner=trial,
        scenarios=OneRank(fault.shares.get("storage_share", 0.0)),
        strategy=default_portfolio(),
        seed=derive(7, "n1", name),
    )
    started = time.monotonic()
    report = campaign.run(
        elapsed=lambda: time.monotonic() - started,
        budget_s=budget_s,
        enough=lambda r: bool(r.findings),
    )
    found = next(iter(report.findings.values()), None)
    if found is None:
        told = f"not seen in {report.schedules} schedules, {trial.reads} of them with wrong reads"
        print(f"{name}: {told}", flush=True)
        return None
    began = time.monotonic()
    shrunk = shrink(
        NumericsRunner(fault),
        found.scenario,
        found.outcome,
        smaller=simpler,
        go_on=lambda: time.monotonic() - began < SHRINK_S,
    )
    replay = replay_of(
        shrunk.outcome,
        scenario={**shrunk.scenario, "fault": name},
        found_by=FoundBy(found.strategy, found.seed, found.schedule),
        tool=tool(),
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    save(replay, path)
    print(f"{name}: {shrunk.after}, schedule {found.schedule}", flush=True)
    return path


class _Trial:
    """Runs with fingerprints; where a read was wrong, again with bytes, whose verdict it is."""

    def __init__(self, reads: ReadRunner, numerics: NumericsRunner) -> None:
        self._reads = reads
        self._numerics = numerics
        self.reads = 0

    def run(self, scenario: Scenario, chooser: Chooser) -> Outcome:
        outcome = self._reads.run(scenario, chooser)
        if outcome.verdict is None:
            return outcome
        self.reads += 1
        try:
            return self._numerics.run(scenario, StrictReplay(outcome.tape))
        except Divergence:  # N1 saw nothing where the read was wrong, and the run went on
            return replace(outcome, verdict=None)


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    for name in names or candidates():
        find(name)


if __name__ == "__main__":
    main(sys.argv[1:])
