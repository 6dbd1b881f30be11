"""The repository lint: the rules of tests/tidy.py hold for what is shipped, and each can fail."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests import tidy

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("cache", "workloads", "harness")
ENTRY_POINTS = {
    "bench",
    "harness.bench",
    "harness.bench.__main__",
    "harness.cli.locustfile",
    "harness.faults.corpus",
    "harness.faults.mutation",
    "harness.model.corpus",
    "harness.targets.sglang.__main__",
    "harness.targets.sglang.ci",
    "harness.targets.sglang.publish",
}
REPEATABLE = ("cache/", "harness/explore/")
TEXT = {".py", ".md", ".toml", ".lock", ".in", ".html", ".css", ".js", ""}


def _python(*folders: str) -> dict[str, str]:
    """Path from the root to text, of the Python files of some folders."""
    found = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in found}


SHIPPED = {**_python(*PACKAGES, "tools"), **{p.name: p.read_text() for p in ROOT.glob("*.py")}}
EVERY = {**SHIPPED, **_python("tests")}
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WRITTEN = sorted(
    path
    for folder in (*PACKAGES, "tools", "tests", "docs", ".ci")
    for path in (ROOT / folder).rglob("*")
    if path.is_file() and path.suffix in TEXT
)


def _broken(rule, texts: dict[str, str]) -> list[str]:
    return [f"{path}:{finding}" for path, text in texts.items() for finding in rule(text)]


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def _documents() -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in DOCUMENTS}


@pytest.mark.parametrize(
    "rule", [tidy.file_size, tidy.function_size, tidy.line_length], ids=lambda rule: rule.__name__
)
def test_every_python_file_keeps_its_size(rule):
    assert _broken(rule, EVERY) == []


@pytest.mark.parametrize(
    "rule", [tidy.leftovers, tidy.seeded_chance], ids=lambda rule: rule.__name__
)
def test_shipped_code_is_finished_and_seeded(rule):
    assert _broken(rule, SHIPPED) == []


@pytest.mark.parametrize(
    "rule", [tidy.repeatable, tidy.counters, tidy.set_order], ids=lambda rule: rule.__name__
)
def test_decisions_repeat_exactly(rule):
    core = {path: text for path, text in SHIPPED.items() if path.startswith(REPEATABLE)}
    assert core
    assert _broken(rule, core) == []


def test_imports_point_down_only():
    found = [
        f"{path}:{finding}"
        for path, text in SHIPPED.items()
        for finding in tidy.layering(text, path.split("/")[0])
    ]
    assert found == []


def test_every_module_is_imported_or_an_entry_point():
    texts = {
        _module(path): text
        for path, text in SHIPPED.items()
        if path == "bench.py" or path.startswith(tuple(f"{name}/" for name in PACKAGES))
    }
    packages = {name for name in texts if name.endswith("__init__")}
    assert tidy.unused_modules(texts, ENTRY_POINTS | packages) == []


def test_no_text_names_a_folder_of_one_machine():
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in WRITTEN}
    texts |= _documents() | {"Makefile": (ROOT / "Makefile").read_text()}
    assert _broken(tidy.machine_paths, texts) == []


def test_every_document_has_one_title():
    assert _broken(tidy.one_title, _documents()) == []


def test_links_in_documents_lead_somewhere():
    found = []
    for path in DOCUMENTS:

        def document_at(target: str, path: Path = path) -> str | None:
            there = path.parent / target if target else path
            if not there.exists():
                return None
            return there.read_text() if there.suffix == ".md" else ""

        found += [f"{path.name}:{line}" for line in tidy.dead_links(path.read_text(), document_at)]
    assert found == []


def test_commands_in_documents_exist():
    found = []
    for name, text in _documents().items():
        for line, words in tidy.shell_commands(text):
            found += [f"{name}:{line}: {reason}" for reason in _command_errors(words)]
    assert found == []


def _command_errors(words: list[str]) -> list[str]:
    """Why a documented command would not run; other programs' commands are not judged."""
    words = [word for word in words if not word.startswith(("PYTHON=", "ARGS="))]
    if words[0] == "make":
        targets = [word for word in words[1:] if word.isalpha()]
        return [f"make has no {target}" for target in targets if not _make_knows(target)]
    if words[0] == "kvtorture":
        words = words[1:]
    elif words[:2] == ["python", "bench.py"]:
        words = words[2:]
    else:
        return []
    command = words[0] if words and words[0].isalpha() else ""
    shown = _help_of(command)
    if shown is None:
        return [f"bench.py has no {command}"]
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [f"{command} has no {flag}" for flag in flags if flag != "--help" and flag not in shown]


@cache
def _make_knows(target: str) -> bool:
    # A make that runs these tests must not hand its own flags down.
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(["make", "-n", target], cwd=ROOT, env=clean, capture_output=True)
    return done.returncode == 0


@cache
def _help_of(command: str) -> str | None:
    words = [sys.executable, "bench.py", *command.split(), "--help"]
    wide = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(words, cwd=ROOT, env=wide, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


LONG_FUNCTION = "def f():\n" + "    pass\n" * tidy.MAX_FUNCTION_LINES
BAD = {
    "a long file": (tidy.file_size, "\n" * (tidy.MAX_FILE_LINES + 1)),
    "a long function": (tidy.function_size, LONG_FUNCTION),
    "a long line": (tidy.line_length, "x" * (tidy.MAX_LINE_LENGTH + 1)),
    "a to-do": (tidy.leftovers, "x = 1  # TO" + "DO later"),
    "a stub": (tidy.leftovers, "raise NotImplemented" + "Error"),
    "a machine's folder": (tidy.machine_paths, "open('" + "/wo" + "rk/x')"),
    "the clock": (tidy.repeatable, "import time"),
    "a clock by name": (tidy.repeatable, "from datetime import datetime"),
    "a late import": (tidy.repeatable, "def f():\n    import uuid"),
    "an identity": (tidy.repeatable, "key = id(node)"),
    "a salted hash": (tidy.repeatable, "key = hash('a')"),
    "entropy": (tidy.repeatable, "import os\nos.urandom(8)"),
    "entropy by name": (tidy.repeatable, "from os import urandom"),
    "a global": (tidy.repeatable, "def f():\n    global n\n    n = 1"),
    "global chance": (tidy.seeded_chance, "import random"),
    "numpy's global chance": (tidy.seeded_chance, "import numpy as np\nnp.random.rand()"),
    "an unseeded generator": (tidy.seeded_chance, "import numpy as np\nnp.random.default_rng()"),
    "an unseeded PCG64": (tidy.seeded_chance, "r = np.random.Generator(np.random.PCG64())"),
    "a shared counter": (tidy.counters, "import itertools\nids = itertools.count()"),
    "a class's counter": (tidy.counters, "class A:\n    ids: object = count(1)"),
    "a set display": (tidy.set_order, "for x in {1, 2}:\n    pass"),
    "a set call": (tidy.set_order, "xs = [x for x in set(y)]"),
    "a set's list": (tidy.set_order, "xs = list(set(y) | z)"),
    "a set's pop": (tidy.set_order, "def f(xs: set[int]):\n    return xs.pop()"),
    "a set by name": (tidy.set_order, "xs = {1}\nfor x in xs:\n    pass"),
    "a set in an object": (
        tidy.set_order,
        "class A:\n def __init__(self):\n  self.x: set[int] = set()\n"
        " def f(self):\n  return tuple(self.x)",
    ),
    "no title": (tidy.one_title, "## a"),
    "two titles": (tidy.one_title, "# a\n# b"),
}


@pytest.mark.parametrize(("rule", "text"), BAD.values(), ids=BAD.keys())
def test_each_rule_can_fail(rule, text):
    assert rule(text) != []


GOOD = {
    "a sorted set": (tidy.set_order, "for x in sorted({1, 2}):\n    pass"),
    "a set's members": (tidy.set_order, "xs = {1}\nok = 1 in xs\nn = len(xs)"),
    "a name in another scope": (
        tidy.set_order,
        "def f():\n    xs = {1}\ndef g(xs: list[int]):\n    return list(xs)",
    ),
    "a local counter": (tidy.counters, "def f():\n    ids = itertools.count()"),
    "a seeded generator": (tidy.seeded_chance, "np.random.Generator(np.random.PCG64(1))"),
    "a title and code": (tidy.one_title, "# a\n```sh\n# b\n```"),
    "a word like a folder": (tidy.machine_paths, "/wo" + "rkloads and net/wo" + "rk"),
}


@pytest.mark.parametrize(("rule", "text"), GOOD.values(), ids=GOOD.keys())
def test_each_rule_lets_good_code_pass(rule, text):
    assert rule(text) == []


@pytest.mark.parametrize(
    ("package", "text"),
    [
        ("cache", "from workloads.request import Request"),
        ("cache", "import harness.engine"),
        ("workloads", "from cache import config"),
        ("harness", "import bench"),
    ],
)
def test_layering_sees_an_import_that_points_up_or_sideways(package, text):
    assert tidy.layering(text, package) != []
    assert tidy.layering("import numpy", package) == []


def test_unused_modules_sees_the_one_nobody_imports():
    texts = {"a": "from p import b\nfrom . import c", "p.b": "", "c": "", "d": "import d"}
    assert tidy.unused_modules(texts, {"a"}) == ["d"]


def test_relative_imports_name_the_module_they_reach():
    assert (1, "p.q.r") in tidy.imports("from .q import r", "p.m")
    assert (1, "p.x") in tidy.imports("from .. import x", "p.q.m")


def test_dead_links_sees_files_and_headings_that_are_not_there():
    there = {"": "# Here", "b.md": "# Some Title"}.get
    text = "[a](gone.md) [b](b.md#some-title) [c](b.md#none) [d](#here) [e](https://x.y/z)"
    found = tidy.dead_links(text, there)
    assert found == ["1: nothing at gone.md", "1: no heading for b.md#none"]


def test_shell_commands_joins_lines_and_drops_comments_and_prompts():
    text = "make no\n```sh\n$ make soak  # why\npython bench.py soak \\\n  --seed 3\n```\n"
    assert tidy.shell_commands(text) == [
        (3, ["make", "soak"]),
        (4, ["python", "bench.py", "soak", "--seed", "3"]),
    ]
    assert tidy.shell_commands("```\nmake\n```") == []


def test_a_documented_make_target_that_is_not_there_is_seen():
    assert _command_errors(["make", "soakk"]) == ["make has no soakk"]
    assert _command_errors(["make", "help"]) == []
