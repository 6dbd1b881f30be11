"""The command line starts quickly: what only some commands need is imported by those."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEAVY = {"torch", "matplotlib", "pandas", "locust", "starlette"}


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("bench, harness.cli.hunt, harness.cli.smoke", HEAVY),
        ("harness.cli.load", {"torch", "starlette"}),
        ("harness.cli.serve", {"torch", "locust"}),
    ],
)
def test_no_heavy_library_is_imported_before_it_is_needed(modules, heavy):
    told = f"import sys, {modules}; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n", "")
