"""Real releases with storage: what is reached, and what oracles say where a release is broken."""

import os
import subprocess
import sys

import pytest

from harness.targets.sglang.ci import ONLY
from harness.targets.sglang.eras import ERAS
from tests.harness.targets.test_releases import ROOT, here

ONE = os.environ.get(ONLY, "")
VERSIONS = [era.version for era in ERAS if ONE in ("", era.version) and era.storage]

pytestmark = pytest.mark.sglang

HUNT = """
import sys
from harness.hunt.workers import Search, campaign_of
from harness.targets.choose import target_of
from harness.targets.sglang.environment import check_known
from harness.targets.sglang.scenario import swarm

version, held = sys.argv[1], eval(sys.argv[2])
release = target_of(f"sglang=={version}").runner.release

class Stored:
    def draw(self, seed):
        told = {"storage": "file", "ratio": 1.0, "components": "full", "stored": 99, "ranks": 1}
        return {**swarm(check_known(version)).draw(seed), **told, **held}

campaign = campaign_of(Search(target=f"sglang=={version}"), 0)
campaign._scenarios = Stored()
"""
REACH = """
found = campaign.run(elapsed=lambda: 0, budget_s=1, schedule_limit=16)
marks = found.marks.sometimes
print("unrepeatable", found.unrepeatable, "unreached", [m for m in WANTED if not marks[m]])
"""
BREAK = """
found = campaign.run(
    elapsed=lambda: 0, budget_s=1, schedule_limit=60, enough=lambda report: bool(report.findings)
)
print(sorted(found.findings))
"""
WANTED = ("prefetch", "prefetch_hit", "prefetch_grafted", "prefetch_revoked", "persisted")


def ran(version: str, held: dict[str, object], body: str) -> str:
    here(version)
    command = [sys.executable, "-W", "ignore", "-c", HUNT + body, version, repr(held)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_a_hunt_reaches_storage_and_repeats_itself(version: str) -> None:
    shows_nodes = not version.endswith("-rust")
    wanted = [mark for mark in WANTED if shows_nodes or mark != "prefetch_grafted"]
    said = ran(version, {}, f"WANTED = {wanted}\n{REACH}")
    assert "unrepeatable [] unreached []" in said, said


GIVES_BACK = """
kind = release.find("HybridCacheController")
terminate = kind.terminate_prefetch

def gives_back(self, operation):
    if operation.host_indices is not None:
        self.mem_pool_host.free(operation.host_indices)
    return terminate(self, operation)

kind.terminate_prefetch = gives_back
"""
MIXES_UP = """
kind = release.find("HybridCacheController")
write = kind._generic_page_set

def mixes_up(self, keys, host_indices, extra_info=None):
    return write(self, keys[::-1], host_indices, extra_info)

kind._generic_page_set = mixes_up
"""
NEVER_REPORTS = """
kind = release.find("HybridCacheController")
kind._reduce_prefetch_ack = lambda self, ack: setattr(ack, "completed_req", None)
"""
KEEPS_LOCKS = """
release.find("UnifiedRadixCache").dec_host_lock_ref = lambda self, node, params: None
"""
UNAGREED = """
import harness.targets.sglang.pair as pair
pair.reduce = lambda calls: None  # what the ranks' threads ask for is never computed
"""


@pytest.mark.parametrize("version", [v for v in VERSIONS if v == "0.5.23"])
@pytest.mark.parametrize(
    ("fault", "held", "finding"),
    [
        (GIVES_BACK, {}, "O1.host-full: "),
        (MIXES_UP, {"batch": 128}, "C1.storage is given foreign full"),
        (NEVER_REPORTS, {"prefetch": "wait_complete"}, "P1.deadlock"),
        (KEEPS_LOCKS, {}, "L3.persist, prefetch never released"),
        (UNAGREED, {"ranks": 2, "failing": True, "prefetch": "wait_complete"}, "R1."),
    ],
    ids=["gives back", "mixes up", "never reports", "keeps locks", "unagreed"],
)
def test_a_release_that_is_broken_in_its_storage_is_found(
    version: str, fault: str, held: dict[str, object], finding: str
) -> None:
    assert finding in ran(version, held, fault + BREAK)
