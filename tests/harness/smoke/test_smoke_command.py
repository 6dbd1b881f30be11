"""`bench.py smoke` with small plans: exit codes, JUnit, Markdown."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOAK = "soak --workload unique --num-requests 5 --compute null --device-pages 900"
GOOD = f'[[step]]\nname = "a soak"\ncommand = "{SOAK}"\nexit = [0, 5]\n'
THRESHOLD = f'{GOOD}checks = [{{ key = "completed", is = 6 }}]\n'
HUNT = "hunt --fault canary --budget 20s --jobs 1"
FOUND = f'[[step]]\nname = "a hunt"\ncommand = "{HUNT}"\nexit = [0]\n'
CRASH = f'[[step]]\nname = "a soak"\ncommand = "{SOAK} --no-such-flag"\nexit = [0]\n'


def _smoke(folder: Path, plan: str, env=None) -> subprocess.CompletedProcess:
    path = folder / "plan.toml"
    path.write_text(plan)
    command = [sys.executable, "bench.py", "smoke", "--plan", str(path)]
    command += ["--output-dir", str(folder / "out")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, env=env)


@pytest.mark.parametrize(
    ("plan", "code", "errors", "failures"),
    [
        (GOOD, 0, "0", "0"),
        (THRESHOLD, 4, "0", "1"),
        (FOUND, 3, "0", "1"),
        (CRASH, 1, "1", "0"),
    ],
    ids=["good", "threshold", "violation", "crash"],
)
def test_each_end_has_its_exit_code_and_its_place_in_the_reports(
    tmp_path, plan, code, errors, failures
):
    done = _smoke(tmp_path, plan)
    assert done.returncode == code, done.stdout + done.stderr
    suite = ElementTree.parse(tmp_path / "out" / "smoke.xml").getroot()
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == (
        "1",
        errors,
        failures,
    )
    page = (tmp_path / "out" / "smoke.md").read_text()
    assert ("smoke: passed" in page) == (code == 0)


def test_a_wrong_plan_is_exit_code_2(tmp_path):
    assert _smoke(tmp_path, "nothing").returncode == 2
