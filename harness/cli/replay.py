"""`bench.py replay`: a finding step by step, strictly."""

from pathlib import Path

import click
from rich.console import Console

from cache.unified import UnifiedCache
from harness.cli import follow
from harness.cli.errors import UserError
from harness.explore.kernel import Point, Task
from harness.explore.outcome import Runner
from harness.explore.replay import Replay, ReplayError, load
from harness.explore.shrink import measure, nearest_pass
from harness.explore.tape import Divergence, StrictReplay
from harness.faults import fault_named
from harness.hunt.picture import lines_of, picture_of
from harness.hunt.runner import ArenaRunner
from harness.hunt.screen import finding_screen, text_of
from harness.targets.choose import REFERENCE, Target, check_target, target_of
from harness.targets.sglang.environment import MissingRelease
from harness.verdict import Exit


def run(file: str, step: bool, script: str = "") -> int:
    """Repeat a replay file: 3 when its violation came again, 6 when the run took another way. The
    directory of a run on the wall clock is followed: 0 when it came to the same end."""
    if Path(file).is_dir():
        if step or script:
            raise UserError("--step and --script are for the replay file of a finding")
        return follow.run(Path(file))
    try:
        replay = load(Path(file))
    except ReplayError as error:
        raise UserError(str(error)) from None
    if replay.scenario.get("fault"):
        fault_named(replay.scenario["fault"])
    target = _target(replay)
    runner = target.runner
    try:
        if step and target.name != REFERENCE:
            raise UserError("--step shows the reference cache; a release is told without it")
        if step:
            assert isinstance(runner, ArenaRunner)
            runner.run(replay.scenario, StrictReplay(replay.tape), _Stepper())
        story, outcome = target.tell(runner, replay.scenario, replay.tape)
    except Divergence as error:
        click.echo(f"DIVERGED: {error}", err=True)
        return Exit.NONDETERMINISM
    wanted = replay.verdict.kind if replay.verdict else "no violation"
    seen = outcome.verdict.kind if outcome.verdict else "no violation"
    if (seen, outcome.digest) != (wanted, replay.digest):
        click.echo(
            f"DIVERGED: the file says {wanted}, digest {replay.digest}; the run ended with {seen},"
            f" digest {outcome.digest}",
            err=True,
        )
        return Exit.NONDETERMINISM
    if story.verdict is None:
        click.echo(f"PASS: {replay.steps} steps, digest {replay.digest}")
        return Exit.PASS
    size = measure(replay.scenario, outcome)
    screen = finding_screen(
        story,
        found=_origin(replay),
        before=size,
        after=size,
        replays=0,
        stable=True,
        neighbour=nearest_pass(runner, replay.scenario, outcome),
        command=f"python bench.py replay {file}",
    )
    Console().print(screen)
    if script:
        _write_script(replay, runner, text_of(screen), Path(script))
    return Exit.VIOLATION


def _write_script(replay: Replay, runner: Runner, story: str, path: Path) -> None:
    """The finding as one file; only a release's can be told without this project."""
    from harness.targets.sglang.runner import ReleaseRunner
    from harness.targets.sglang.script import needed_by, script_of

    if "target" not in replay.scenario:
        raise UserError("--script is for findings in a release, not in the reference cache")
    assert replay.verdict is not None
    title = f"{replay.scenario['target']}: {replay.verdict.kind}"
    assert isinstance(runner, ReleaseRunner)
    path.write_text(script_of(replay, title, story, needed_by(replay, runner)), encoding="utf-8")


def _target(replay: Replay) -> Target:
    """What the file was found in."""
    name = replay.scenario.get("target", REFERENCE)
    try:
        check_target(name)
    except (ValueError, MissingRelease) as error:
        raise UserError(str(error)) from None
    return target_of(name)


def _origin(replay: Replay) -> str:
    found = replay.found_by
    fault = replay.scenario.get("fault")
    inside = (
        f"; fault {fault}" if fault else f"; {replay.scenario.get('target', 'the clean cache')}"
    )
    return f"found by {found.strategy}, seed {found.seed}, schedule {found.schedule:,}{inside}"


class _Stepper:
    """Shows the cache before each step and waits for the Enter key."""

    def __init__(self) -> None:
        self._cache: UnifiedCache | None = None
        self._number = 0

    def begin(self, cache: UnifiedCache) -> None:
        self._cache = cache

    def on_step(self, task: Task, point: Point) -> None:
        self._number += 1
        assert self._cache is not None
        click.echo("\n".join(lines_of(picture_of(self._cache), self._cache)))
        click.echo(f"next: step {self._number}, {task.name} at {point.name}")
        click.pause("Enter goes on ")

    def after_step(self, task: Task, point: Point) -> None: ...
