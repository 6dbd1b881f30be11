"""Real releases: what was found in them happens again, ten times out of ten."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.targets.sglang.environment import MissingRelease, folder_of
from harness.targets.sglang.eras import ERAS

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "results" / "published" / "sglang"
REPLAYS = sorted(FOLDER.glob("*.json"))
VERSIONS = [era.version for era in ERAS]

pytestmark = pytest.mark.sglang


def here(version: str) -> Path:
    try:
        return folder_of(version, ROOT / ".sglang")
    except MissingRelease as error:
        pytest.skip(str(error))


def bench(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "bench.py", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def version_of(path: Path) -> str:
    target: str = json.loads(path.read_text())["scenario"]["target"]
    return target.partition("==")[2]


@pytest.mark.parametrize("path", REPLAYS, ids=lambda path: path.stem)
def test_a_published_finding_happens_again(path: Path) -> None:
    here(version_of(path))
    done = bench("replay", str(path))
    assert done.returncode == 3, done.stdout + done.stderr


@pytest.mark.parametrize("path", REPLAYS, ids=lambda path: path.stem)
def test_its_script_needs_only_the_release(path: Path, tmp_path: Path) -> None:
    folder = here(version_of(path))
    verdict: dict[str, Any] = json.loads(path.read_text())["verdict"]
    done = subprocess.run(
        [sys.executable, str(path.with_suffix(".py"))],
        cwd=tmp_path,
        env={**os.environ, "SGLANG_WHEEL": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{verdict['oracle']}.{verdict['signature']}" in done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_a_hunt_repeats_itself(version: str, tmp_path: Path) -> None:
    here(version)
    words = ("--budget", "45s", "--jobs", "1", "--keep-going", "--json")
    done = bench("hunt", "--target", f"sglang=={version}", "--output-dir", str(tmp_path), *words)
    assert done.returncode in (0, 3, 5), done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["schedules"] > 0
    assert summary["unrepeatable"] == 0
    assert all(one["stable"] for one in summary["findings"])


def test_a_release_says_what_it_is() -> None:
    here(VERSIONS[0])
    command = [sys.executable, "-m", "harness.targets.sglang", VERSIONS[0]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "UnifiedRadixCache with HybridCacheController" in done.stdout
