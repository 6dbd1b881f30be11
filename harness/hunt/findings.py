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
from harness.explore.outcome import Scenario
from harness.explore.replay import FoundBy, Replay, replay_of, save
from harness.explore.shrink import Shrunk, shrink
from harness.hunt.screen import finding_screen
from harness.hunt.story import Story
from harness.targets.choose import REFERENCE, target_of
from harness.targets.sglang.scenario import shape_of

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
    target: str = REFERENCE,
    shrink_s: float = SHRINK_S,
    monotonic: Callable[[], float] = time.monotonic,
) -> Told:
    """Shrink a finding for so long, look for an order that passes for as long, tell its story."""
    tortured = target_of(target, fault)
    runner = tortured.runner
    verdict = finding.outcome.verdict
    assert verdict is not None
    shrunk = shrink(
        runner,
        finding.scenario,
        finding.outcome,
        smaller=tortured.smaller,
        go_on=_within(shrink_s, monotonic),
        look_on=_within(shrink_s, monotonic),
    )
    story, outcome = tortured.tell(runner, shrunk.scenario, shrunk.outcome.tape)
    replay = replay_of(
        outcome,
        scenario={**shrunk.scenario, **_named(target, fault, shrunk.scenario)},
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


def _within(seconds: float, monotonic: Callable[[], float]) -> Callable[[], bool]:
    """Whether it is so long at most since it was first asked."""
    began: float | None = None

    def asked() -> bool:
        nonlocal began
        began = monotonic() if began is None else began
        return monotonic() - began < seconds

    return asked


def _named(target: str, fault: str, scenario: Scenario) -> Scenario:
    """What a replay has to know beside the scenario; of a release, the sizes that it came to."""
    if target == REFERENCE:
        return {"fault": fault}
    return {"target": target, "sizes": shape_of(scenario)._asdict()}


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
