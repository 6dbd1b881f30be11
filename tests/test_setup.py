"""A fresh machine gets what it needs.

The lock is exact and whole, make says what it can do, a wheel carries everything that a run reads.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from workloads.bundled import bundled_trace
from workloads.errors import WorkloadError

ROOT = Path(__file__).resolve().parent.parent
LOCK = (ROOT / "requirements.lock").read_text().splitlines()
PINS = dict(
    line.partition(";")[0].split("==") for line in LOCK if not line.startswith("#")
)  # a pin may say where it is needed
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TRACE = "mooncake_conversation_1000.jsonl"


def _make(*words: str) -> subprocess.CompletedProcess[str]:
    # The make that runs these tests must not hand its own flags down.
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(["make", *words], cwd=ROOT, env=clean, capture_output=True, text=True)


def test_every_pin_is_one_exact_public_version():
    for name, version in PINS.items():
        assert re.fullmatch(r"[0-9][0-9a-z.]*", version), (name, version)
        assert name == canonicalize_name(name)


def test_the_lock_drags_in_no_gpu_packages():
    """But Triton, which interprets the kernels where there is no GPU."""
    assert PINS["torch"] == "2.13.0"
    assert [name for name in PINS if name.startswith(("nvidia", "cuda"))] == []


def test_the_lock_answers_every_declared_requirement():
    declared = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    for line in declared:
        need = Requirement(line)
        assert need.specifier.contains(PINS[canonicalize_name(need.name)]), line


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_lock_is_whole_for_every_python(python):
    """Pip is left nothing to choose, except the GPU packages that only some torch builds want."""
    there = {"extra": "", "python_version": python, "python_full_version": f"{python}.0"}
    for name in PINS:
        assert python in SpecifierSet(metadata.metadata(name)["Requires-Python"] or ""), name
        for line in metadata.requires(name) or []:
            need = Requirement(line)
            wanted = not need.marker or need.marker.evaluate(there)
            from_torch = name == "torch" and need.name.startswith(("nvidia", "cuda", "triton"))
            if wanted and not from_torch:
                assert need.specifier.contains(PINS[canonicalize_name(need.name)]), (name, line)


def test_make_help_has_one_line_for_each_target():
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[1].split()
    listed = [line.split()[1] for line in _make("help").stdout.splitlines()]
    assert sorted(listed) == sorted(phony)
    assert {"help", "venv", "soak", "test", "lint", "bench", "clean"} <= set(listed)


def test_make_test_ends_with_a_hunt_unless_tests_are_picked():
    hunt = "bench.py hunt --budget 60s --seed commit"
    assert hunt in _make("-n", "test").stdout.splitlines()[-1]
    assert hunt not in _make("-n", "test", "ARGS=-k tree").stdout


@pytest.mark.parametrize("python", ["no-such-python", "false"])
def test_make_says_in_one_line_that_the_python_will_not_do(python, tmp_path):
    done = _make("venv", f"PYTHON={python}", f"VENV={tmp_path}/venv")
    said = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert done.returncode == 2
    assert len(said) == 1
    assert "Python 3.11 to 3.13" in said[0]
    assert not (tmp_path / "venv").exists()


def test_a_bundled_trace_is_found_installed_first_then_in_the_checkout(tmp_path):
    installed, checkout = tmp_path / "installed", tmp_path / "checkout"
    installed.mkdir()
    checkout.mkdir()
    (checkout / "t.jsonl").touch()
    places = (installed, checkout)
    assert bundled_trace("t.jsonl", places=places) == checkout / "t.jsonl"
    (installed / "t.jsonl").touch()
    assert bundled_trace("t.jsonl", places=places) == installed / "t.jsonl"


def test_a_missing_bundled_trace_says_what_to_type(tmp_path):
    with pytest.raises(WorkloadError, match=r"--trace FILE"):
        bundled_trace("none.jsonl", places=(tmp_path,))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """A wheel built from a copy of the tree, without the network."""
    source = tmp_path_factory.mktemp("source")
    for folder in ("cache", "workloads", "harness", "tests/data"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, source / folder, ignore=ignored)
    for name in ("bench.py", "setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*build, "-w", source / "out", source], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (path,) = (source / "out").glob("kvtorture-*.whl")
    return zipfile.ZipFile(path)


def test_a_wheel_holds_every_module_and_the_bundled_trace(wheel):
    held = set(wheel.namelist())
    modules = {
        path.relative_to(ROOT).as_posix()
        for folder in ("cache", "workloads", "harness")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert modules - held == set()
    assert wheel.read(f"workloads/data/{TRACE}") == bundled_trace(TRACE).read_bytes()
    assert [name for name in held if name.startswith("tests/")] == []


def test_a_wheel_holds_the_report_templates_and_the_command(wheel):
    held = set(wheel.namelist())
    templates = [path for path in (ROOT / "harness/report/templates").iterdir() if path.is_file()]
    assert templates
    assert {f"harness/report/templates/{path.name}" for path in templates} <= held
    (entry,) = [name for name in held if name.endswith("entry_points.txt")]
    assert "kvtorture = bench:main" in wheel.read(entry).decode()
