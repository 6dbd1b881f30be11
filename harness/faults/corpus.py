"""Writes tests/repros anew: for each fault the smallest of a few stories, as a replay file.

A story that is there and still repeats gives way to a shorter one only.

python -m harness.faults.corpus [FAULT ...]
"""

import sys
from pathlib import Path

from harness.explore.campaign import Finding
from harness.explore.prng import derive
from harness.explore.replay import ReplayError, load, repeat
from harness.explore.tape import Divergence
from harness.faults import FAULTS
from harness.hunt.findings import Told, keep, work_out
from harness.hunt.runner import ArenaRunner
from harness.hunt.workers import Search, campaign_of

FOLDER = Path("tests") / "repros"  # of the checkout that it is called in
HUNTS = 8  # at most, until a story is SHORT
SHORT = 8  # steps
SHRINK_S = 4.0
SCHEDULES = 3_000


def main(names: list[str]) -> None:
    for name in names or list(FAULTS):
        there = [_still_there(path) for path in FOLDER.glob(f"{name}.*.json")]
        told = _smallest(name)
        if there and min(there) <= _size(told):
            print(f"{name}: {told.shrunk.after}; what is there is as short", flush=True)
            continue
        for old in FOLDER.glob(f"{name}.*.json"):
            old.unlink()
        path = keep(told, FOLDER, name)
        print(f"{path.name}: {told.shrunk.after}", flush=True)


def _still_there(path: Path) -> tuple[int, int]:
    """The size of a story that is kept; beyond all bounds if it does not repeat any more."""
    replay = load(path)
    try:
        repeat(replay, ArenaRunner())
    except (Divergence, ReplayError):
        return (sys.maxsize, 0)
    return replay.steps, len(set(replay.tape.order))


def _smallest(name: str) -> Told:
    best: Told | None = None
    for number in range(HUNTS):
        told = _hunt(name, number)
        if told is not None and (best is None or _size(told) < _size(best)):
            best = told
        if best is not None and best.shrunk.after.steps <= SHORT:
            break
    assert best is not None, f"{name} was not found"
    return best


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
