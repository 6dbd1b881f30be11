"""Writes what was found in releases, from the kept replays: a page for each, a script for the first
of each kind, and the table of all of them.

`findings.toml` beside the replays says what a replay cannot: what was expected, which function does
it, whether it is known and since when it is fixed. Every replay is repeated ten times first.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from harness.explore.replay import Replay, load, repeat
from harness.explore.shrink import measure
from harness.hunt.screen import finding_screen, text_of
from harness.targets.choose import target_of
from harness.targets.sglang.runner import ReleaseRunner
from harness.targets.sglang.scenario import shape_of
from harness.targets.sglang.script import needed_by, script_of

FOLDER = Path("results/published/sglang")
TABLE = Path("results/published/sglang.md")
TIMES = 10
HEAD = """# What was found in released SGLang

Each row is a finding of a search over one release, shrunk, confirmed by reading the code path, and
repeated ten times out of ten. Each was found with the command in the second table and on its page,
a hunt held to chosen knobs (`--hold`) that ends with that kind (`--until`); "found after" is of
that command, on a machine that others used too. Where it names a commit, a hunt of that one found
it, and today's worlds have not come to it again within minutes; the replay is of today's worlds.
How it works: [docs/sglang.md](../../docs/sglang.md).
A page ready to be posted lies in [sglang/](sglang/), and for the first of each kind a script that
needs only the release; `python bench.py replay FILE --script OUT.py` writes the others.

| release | finding | oracle | steps | found after | upstream | fixed |
| --- | --- | --- | ---: | ---: | --- | --- |
"""
COMMANDS = """## The command of each row

Schedule N of a seed is the same on every machine where `--jobs 1` says one process.

| row | command |
| --- | --- |
"""


class Finding(NamedTuple):
    """One entry of `findings.toml`."""

    slug: str
    title: str
    expected: str
    happened: str
    function: str
    why: str
    reference: str
    fixed: str
    seconds: float
    schedules: int
    command: str
    commit: str = ""  # whose worlds the command searched, where today's do not come to it

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.slug}.json"


def findings(folder: Path = FOLDER) -> list[Finding]:
    data = tomllib.loads((folder / "findings.toml").read_text(encoding="utf-8"))
    return [Finding(**item) for item in data["finding"]]


def main(words: list[str]) -> int:
    """Without words, everything, each release in a process of its own; with one, that release."""
    if words:
        for finding in findings():
            replay = load(finding.path)
            if replay.scenario["target"] == words[0]:
                _write(finding, replay)
        return 0
    for name in dict.fromkeys(str(load(one.path).scenario["target"]) for one in findings()):
        command = [sys.executable, "-m", "harness.targets.sglang.publish", name]
        if subprocess.run(command).returncode:
            return 1
    TABLE.write_text(table(), encoding="utf-8")
    return 0


def _write(finding: Finding, replay: Replay) -> None:
    """The page and the script of one finding."""
    target = target_of(str(replay.scenario["target"]))
    for _ in range(TIMES):
        repeat(replay, target.runner)
    story, outcome = target.tell(target.runner, replay.scenario, replay.tape)
    size = measure(replay.scenario, outcome)
    told = text_of(
        finding_screen(
            story,
            found=f"found by {replay.found_by.strategy}, seed {replay.found_by.seed}",
            before=size,
            after=size,
            replays=0,
            stable=True,
            neighbour=None,
            command=f"python bench.py replay {finding.path.as_posix()}",
        )
    )
    script = finding.path.with_suffix(".py")
    if has_script(finding):
        assert isinstance(target.runner, ReleaseRunner)
        ran = needed_by(replay, target.runner)
        script.write_text(script_of(replay, finding.title, told, ran), encoding="utf-8")
    else:
        script.unlink(missing_ok=True)
    finding.path.with_suffix(".md").write_text(page(finding, replay, told), encoding="utf-8")
    print(f"{finding.slug}: {TIMES} of {TIMES} replays agree, digest {replay.digest}")


def has_script(finding: Finding) -> bool:
    """Whether its script is kept: of findings with one title, the first one's."""
    return next(one.slug for one in findings() if one.title == finding.title) == finding.slug


def page(finding: Finding, replay: Replay, story: str) -> str:
    """Ready to be posted."""
    assert replay.verdict is not None
    return f"""# {finding.title}

**Version**: {str(replay.scenario["target"]).replace("==", " ")}

**Configuration**: {configuration(replay)}

**Expected**: {finding.expected}

**Happened**: {finding.happened}

**Where**: {finding.function}

**Why**: {finding.why}

**Known**: {finding.reference}

**Fixed**: {finding.fixed}

**Verdict of the oracle**: `{replay.verdict.kind}`: {replay.verdict.message}

## Reproduce

{_how(finding)} Found after {_after(finding)} with

```sh
{finding.command}
```

## Steps

F, W and M are FULL, window and recurrent state on the device, f, w and m on the host, a dot where
absent. `sched` is the scheduler, `fwd` the forward stream, `d2h` and `h2d` the copy streams.
At `scheduler.serve` requests come and go one after the other, before the story begins.

```text
{story.strip()}
```
"""


def _after(finding: Finding) -> str:
    then = f", at commit {finding.commit}" if finding.commit else ""
    return f"{finding.seconds:.0f} s, {finding.schedules:,} schedules{then}"


def _how(finding: Finding) -> str:
    script, replay = f"{finding.slug}.py", f"python bench.py replay {finding.path.as_posix()}"
    if has_script(finding):
        return (
            f"Either `python {script}` with the release and torch, no GPU needed, or\n`{replay}`."
        )
    return (
        f"Either `{replay}`, or `{replay} --script {script}` and then `python {script}`"
        " anywhere, with the\nrelease and torch, no GPU needed."
    )


def configuration(replay: Replay) -> str:
    """The launch that the scenario stands for, in the words of its flags."""
    shape = shape_of(replay.scenario)
    kinds = {"full": True, "swa": shape.window > 0, "mamba": shape.states > 0}
    components = "+".join(kind for kind, there in kinds.items() if there)
    flags = [
        "SGLANG_ENABLE_UNIFIED_RADIX_TREE=1",
        f"--page-size {shape.page_size}",
        f"--chunked-prefill-size {shape.chunk}",
        f"--max-running-requests {shape.running}",
        f"--schedule-policy {shape.schedule_policy}",
    ]
    if shape.hierarchical:
        flags += [
            "--enable-hierarchical-cache",
            f"--hicache-ratio {shape.ratio:g}",
            f"--hicache-write-policy {shape.policy}",
        ]
    if shape.storage:
        more = json.dumps({"prefetch_threshold": shape.threshold})
        flags += [
            f"--hicache-storage-backend {shape.storage}",
            f"--hicache-storage-prefetch-policy {shape.prefetch}",
            f"--hicache-storage-backend-extra-config '{more}'",
        ]
    if not shape.overlap:
        flags.append("--disable-overlap-schedule")
    pools = f"{shape.full} tokens"
    if shape.window:
        pools += f", {shape.swa} SWA tokens, window {shape.window}"
    if shape.states:
        pools += f", {shape.states} recurrent states"
    return f"{components} ({pools}); `{' '.join(flags)}`"


def table() -> str:
    """All findings, a row each."""
    rows, commands = [], []
    for finding in findings():
        replay = load(finding.path)
        assert replay.verdict is not None
        commands.append(f"| [{finding.slug}](sglang/{finding.slug}.md) | `{finding.command}` |")
        version = str(replay.scenario["target"]).partition("==")[2]
        rows.append(
            f"| {version} | [{finding.title}](sglang/{finding.slug}.md) | {replay.verdict.oracle} |"
            f" {replay.steps} | {_after(finding)} |"
            f" {finding.reference} | {finding.fixed} |"
        )
    notes = (FOLDER / "notes.md").read_text(encoding="utf-8")
    return HEAD + "\n".join(rows) + "\n\n" + COMMANDS + "\n".join(commands) + "\n\n" + notes


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
