"""Writes tests/repros anew: for each fault the smallest of a few stories, as a replay file.

python -m harness.faults.corpus [FAULT ...]
"""

import sys
from pathlib import Path

from harness.explore.campaign import Finding
from harness.explore.prng import derive
from harness.faults import FAULTS
from harness.hunt.findings import Told, keep, work_out
from harness.hunt.workers import Search, campaign_of

FOLDER = Path("tests") / "repros"  # of the checkout that it is called in
HUNTS = 2
SHRINK_S = 4.0
SCHEDULES = 3_000


def main(names: list[str]) -> None:
    for name in names or list(FAULTS):
        told = min(filter(None, (_hunt(name, number) for number in range(HUNTS))), key=_size)
        for old in FOLDER.glob(f"{name}.*.json"):
            old.unlink()
        path = keep(told, FOLDER, name)
        print(f"{path.name}: {told.shrunk.after}", flush=True)


def _hunt(name: str, number: int) -> Told | None:
    campaign = campaign_of(Search(fault=name, seed=derive(7, name, number)), 0)
    report = campaign.run(
        elapsed=lambda: 0.0,
        budget_s=1.0,
        schedule_limit=SCHEDULES,
        enough=lambda r: bool(r.findings),
    )
    found: Finding | None = next(iter(report.findings.values()), None)
    told = work_out(found, name, shrink_s=SHRINK_S) if found is not None else None
    return told if told is not None and told.shrunk.stable else None


def _size(told: Told) -> tuple[int, int]:
    return told.shrunk.after.steps, told.shrunk.after.tasks


if __name__ == "__main__":
    main(sys.argv[1:])
