"""A finding as one file that needs neither this project nor a server: only the release and torch.

The file carries the sources that drive the release and the choices of the run, repeats it strictly,
and ends with the violation.
"""

import ast
from pathlib import Path

from harness.explore.replay import Replay, dumps

ROOT = Path(__file__).resolve().parents[3]
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
    outcome = ReleaseRunner(Release(folder(), VERSION)).run(run["scenario"], StrictReplay(tape))
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


# What drives the release, as it was when this was found (kvtorture, Apache 2.0). Its docstrings and
# comments are left out here.
SOURCES = {sources}

if __name__ == "__main__":
    raise SystemExit(main())
'''


def script_of(replay: Replay, title: str, story: str) -> str:
    """The text of the file. `replay` is of a release; `story` is told in its docstring."""
    release = str(replay.scenario["target"])
    names = modules_of(DRIVER)
    sources = "{\n" + "".join(f"    {name!r}: {_quoted(name)},\n" for name in names) + "}"
    return TEMPLATE.format(
        title=title,
        story=story.strip().replace("\\", "/"),
        release=release,
        version=release.partition("==")[2],
        packages=", beside a folder packages with msgspec",
        run=dumps(replay),
        sources=sources,
    )


def modules_of(name: str) -> list[str]:
    """A module of this project and all that it imports of it, what is imported first, first."""
    order: list[str] = []
    _visit(name, order, {})
    return order


def _visit(name: str, order: list[str], seen: dict[str, None]) -> None:
    """Packages come after the modules that they import, and need not come before theirs."""
    if name in seen:
        return
    seen[name] = None
    for wanted in (*_imports(name), name.rpartition(".")[0]):
        if wanted:
            _visit(wanted, order, seen)
    order.append(name)


def _imports(name: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(_source(name))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness"):
            module = node.module or ""
            inside = [f"{module}.{alias.name}" for alias in node.names]
            found += [item for item in inside if _path(item) is not None] or [module]
    return found


def _source(name: str) -> str:
    path = _path(name)
    assert path is not None, f"no module {name}"
    return path.read_text(encoding="utf-8")


def _path(name: str) -> Path | None:
    base = ROOT.joinpath(*name.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def _quoted(name: str) -> str:
    """A source as a literal that reads as lines."""
    text = bare(_source(name))
    if not text:
        return "''"
    if "'''" in text:
        return repr(text)
    return "r'''\n" + text + "\n'''"


def bare(source: str) -> str:
    """What a source does, without its docstrings and comments."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            told = ast.get_docstring(node, clean=False) is not None
            node.body = node.body[told:] or [ast.Pass()]
    return ast.unparse(tree) if tree.body != [] else ""
