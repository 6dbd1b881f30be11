"""From the first run that failed to a finding that can be handed on: shrunk, checked, saved.

Invariant: what is saved failed with the verdict it names, and ten strict replays agreed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import RenderableType

from harness.explore.campaign import Finding
from harness.explore.replay import FoundBy, Replay, replay_of, save
from harness.explore.shrink import Shrunk, shrink
from harness.faults import fault_named
from harness.hunt.runner import ArenaRunner
from harness.hunt.scenario import simpler
from harness.hunt.screen import finding_screen
from harness.hunt.story import Story, tell

SHRINK_S = 10.0


@dataclass(frozen=True, slots=True)
class Told:
    """A finding with its story. `seconds` is when it was first found."""

    kind: str
    seconds: float
    schedule: int
    strategy: str
    shrunk: Shrunk
    story: Story
    replay: Replay


def work_out(
    finding: Finding,
    fault: str,
    *,
    shrink_s: float = SHRINK_S,
    monotonic: Callable[[], float] = time.monotonic,
) -> Told:
    """Shrink a finding and tell its story."""
    runner = ArenaRunner(fault_named(fault) if fault else None)
    verdict = finding.outcome.verdict
    assert verdict is not None
    started = monotonic()
    shrunk = shrink(
        runner,
        finding.scenario,
        finding.outcome,
        smaller=simpler,
        go_on=lambda: monotonic() - started < shrink_s,
    )
    story, outcome = tell(runner, shrunk.scenario, shrunk.outcome.tape)
    replay = replay_of(
        outcome,
        scenario={**shrunk.scenario, "fault": fault},
        found_by=FoundBy(finding.strategy, finding.seed, finding.schedule),
        tool=tool(),
    )
    return Told(
        verdict.kind,
        finding.elapsed_s,
        finding.schedule,
        finding.strategy,
        shrunk,
        story,
        replay,
    )


def keep(told: Told, folder: Path, fault: str) -> Path:
    """Write the replay file; its name is the verdict's class and the fault."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(
        c if c.isalnum() or c in ".-" else "-" for c in f"{fault or 'clean'}.{told.kind}"
    )
    path = folder / f"{name}.json"
    save(told.replay, path)
    return path


def screen_of(told: Told, command: str) -> RenderableType:
    return finding_screen(
        told.story,
        found=(
            f"found by {told.strategy} in schedule {told.schedule:,} after {told.seconds:.2f} s"
        ),
        before=told.shrunk.before,
        after=told.shrunk.after,
        replays=told.shrunk.replays,
        stable=told.shrunk.stable,
        neighbour=told.shrunk.neighbour,
        command=command,
    )


def tool() -> str:
    try:
        return f"kvtorture {version('kvtorture')}"
    except PackageNotFoundError:
        return "kvtorture (checkout)"
