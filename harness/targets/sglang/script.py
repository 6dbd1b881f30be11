"""A finding as one file that needs neither this project nor a server: only the release and torch.

The file carries the sources that drive the release and the choices of the run, repeats it strictly,
and ends with the violation.
"""

from harness.explore.replay import Replay, dumps
from harness.explore.tape import StrictReplay, Tape
from harness.targets.sglang.oracles import ORACLES
from harness.targets.sglang.prune import Ran, functions_run, sources_of
from harness.targets.sglang.runner import ReleaseRunner

DRIVER = "harness.targets.sglang.runner"

TEMPLATE = '''#!/usr/bin/env python3
"""{title}

{story}

Needs Python 3.11 or later, torch, numpy and {release}: installed, or its wheel unpacked in the
folder that SGLANG_WHEEL names{packages}. No GPU, no model, no server. Exits with 1 when it happens.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

VERSION = "{version}"
RUN = r"""
{run}"""


def main() -> int:
    unpack(SOURCES)
    from harness.explore.tape import StrictReplay, Tape
    from harness.targets.sglang.release import Release
    from harness.targets.sglang.runner import ReleaseRunner

    run = json.loads(RUN)
    tape = Tape.from_json({{"order": run["order"], "draws": run["draws"]}})
    runner = ReleaseRunner(Release(folder(), VERSION), without={without})  # other oracles
    outcome = runner.run(run["scenario"], StrictReplay(tape))
    print(__doc__)
    if outcome.verdict is None:
        print("nothing was violated")
        return 0
    print(f"{{outcome.verdict.kind}}\\n  {{outcome.verdict.message}}")
    return 1


def folder() -> Path:
    """Where the release is."""
    if os.environ.get("SGLANG_WHEEL"):
        return Path(os.environ["SGLANG_WHEEL"])
    found = importlib.util.find_spec("sglang")
    if found is None or not found.submodule_search_locations:
        sys.exit("sglang is not here: set SGLANG_WHEEL to the folder of its unpacked wheel")
    return Path(list(found.submodule_search_locations)[0]).parent


def unpack(sources: dict[str, str]) -> None:
    """Make the driver importable, parents before their children."""
    for name in sources:
        module = ModuleType(name)
        module.__path__ = []
        module.__file__ = f"<{{name}}>"
        sys.modules[name] = module
    for name, text in sources.items():
        exec(compile(text, f"<{{name}}>", "exec"), sys.modules[name].__dict__)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, sys.modules[name])


# What drives the release, as it was when this was published (kvtorture, Apache 2.0): without
# docstrings, comments and annotations, and without the functions that do not run here.
SOURCES = {sources}

if __name__ == "__main__":
    raise SystemExit(main())
'''


def script_of(replay: Replay, title: str, story: str, ran: Ran) -> str:
    """The text of the file. `replay` is of a release, `story` is told in its docstring, and `ran`
    are the functions that run in it."""
    release = str(replay.scenario["target"])
    sources = sources_of(DRIVER, ran)
    literal = "{\n" + "".join(f"    {n!r}: {_quoted(text)},\n" for n, text in sources.items()) + "}"
    return TEMPLATE.format(
        title=title,
        story=story.strip().replace("\\", "/"),
        release=release,
        version=release.partition("==")[2],
        packages=", beside a folder packages with msgspec",
        without=others(replay),
        run=dumps(replay),
        sources=literal,
    )


def needed_by(replay: Replay, runner: ReleaseRunner) -> Ran:
    """The functions of this project that run when a script repeats the replay."""

    def run() -> None:
        tape = Tape.from_json({"order": replay.order, "draws": replay.draws})
        fresh = ReleaseRunner(runner.release, without=others(replay))
        verdict = fresh.run(replay.scenario, StrictReplay(tape)).verdict
        assert verdict is not None
        assert replay.verdict is not None
        assert verdict.kind == replay.verdict.kind, "one oracle says what all of them say"

    return functions_run(run)


def others(replay: Replay) -> tuple[str, ...]:
    """The families of oracles that do not judge what the replay ends with."""
    assert replay.verdict is not None
    return tuple(kind.name for kind in ORACLES if not replay.verdict.oracle.startswith(kind.name))


def _quoted(text: str) -> str:
    """A source as a literal that reads as lines."""
    if not text:
        return "''"
    if "'''" in text:
        return repr(text)
    return "r'''\n" + text + "\n'''"
