"""Real releases: what was found in them happens again, ten times out of ten."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.targets.sglang.ci import ONLY
from harness.targets.sglang.environment import MissingRelease, folder_of
from harness.targets.sglang.eras import ERAS

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "results" / "published" / "sglang"
ONE = os.environ.get(ONLY, "")
VERSIONS = [era.version for era in ERAS if ONE in ("", era.version)]

pytestmark = pytest.mark.sglang


def version_of(path: Path) -> str:
    target: str = json.loads(path.read_text())["scenario"]["target"]
    return target.partition("==")[2]


REPLAYS = [path for path in sorted(FOLDER.glob("*.json")) if version_of(path) in VERSIONS]


def here(version: str) -> Path:
    try:
        return folder_of(version, ROOT / ".sglang")
    except MissingRelease as error:
        pytest.skip(str(error))


def bench(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "bench.py", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("path", REPLAYS, ids=lambda path: path.stem)
def test_a_published_finding_happens_again(path: Path) -> None:
    here(version_of(path))
    done = bench("replay", str(path))
    assert done.returncode == 3, done.stdout + done.stderr


@pytest.mark.parametrize("path", REPLAYS, ids=lambda path: path.stem)
def test_its_script_needs_only_the_release(path: Path, tmp_path: Path) -> None:
    folder = here(version_of(path))
    verdict: dict[str, Any] = json.loads(path.read_text())["verdict"]
    script = path.with_suffix(".py")
    if not script.exists():
        script = tmp_path / "finding.py"
        bench("replay", str(path), "--script", str(script))
    done = subprocess.run(
        [sys.executable, str(script)],
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
    words = ("--budget", "20s", "--jobs", "1", "--keep-going", "--json")
    done = bench("hunt", "--target", f"sglang=={version}", "--output-dir", str(tmp_path), *words)
    assert done.returncode in (0, 3, 5), done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["schedules"] > 0
    assert summary["unrepeatable"] == 0
    assert all(one["stable"] for one in summary["findings"])


KEPT = """
import gc
from harness.explore.campaign import Campaign, default_portfolio
from harness.explore.kernel import Kernel
from harness.targets.choose import target_of
from harness.targets.sglang.environment import check_known
from harness.targets.sglang.scenario import swarm

runner = target_of("sglang=={version}", "").runner
campaign = Campaign(
    runner=runner, scenarios=swarm(check_known("{version}")), strategy=default_portfolio(), seed=1
)
campaign.run(elapsed=lambda: 0.0, budget_s=1.0, schedule_limit=12)
gc.collect()
print(sum(isinstance(one, Kernel) for one in gc.get_objects()))
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_worlds_that_are_over_are_not_kept(version: str) -> None:
    here(version)
    command = [sys.executable, "-W", "ignore", "-c", KEPT.format(version=version)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 2, "the last run, and one that its findings show"


def test_a_release_says_what_it_is() -> None:
    here(VERSIONS[0])
    command = [sys.executable, "-m", "harness.targets.sglang", VERSIONS[0]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "UnifiedRadixCache with HybridCacheController" in done.stdout


UNAGREED = """
import sys
from harness.targets.sglang import agreement
real = agreement.reduce
agreement.reduce = lambda calls: real(calls) if None in calls else None
from harness.hunt.workers import Search, campaign_of
from harness.targets.sglang.environment import check_known
from harness.targets.sglang.scenario import swarm

class Two:
    def draw(self, seed):
        told = {"ranks": 2, "policy": "write_through", "ratio": 1.0, "components": "full"}
        return {**swarm().draw(seed), **told}

campaign = campaign_of(Search(target=sys.argv[1]), 0)
campaign._scenarios = Two()
found = campaign.run(
    elapsed=lambda: 0, budget_s=1, schedule_limit=40, enough=lambda report: bool(report.findings)
)
print(sorted(found.findings))
"""


@pytest.mark.parametrize("version", [v for v in VERSIONS if v in ("0.5.12", "0.5.23")])
def test_ranks_that_consume_acknowledgements_without_agreeing_are_found(version: str) -> None:
    """What the oracle of ranks is for; the releases themselves agree."""
    here(version)
    command = [sys.executable, "-c", UNAGREED, f"sglang=={version}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "R1." in done.stdout or "R2." in done.stdout, done.stdout
