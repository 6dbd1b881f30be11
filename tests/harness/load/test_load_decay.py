"""A server whose hits become rarer is judged by the load, a steady one passes."""

import json
import subprocess
import sys

import pytest

from tests.harness.load.running import ROOT


@pytest.mark.parametrize(("first", "last", "verdict"), [(0.9, 0.5, "decay"), (0.9, 0.9, "pass")])
def test_a_load_judges_whether_hits_decay(tmp_path, first, last, verdict):
    words = (sys.executable, "-m", "tests.harness.load.made_up", str(tmp_path))
    done = subprocess.run(
        (*words, str(first), str(last)), cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.stdout, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verdict"] == verdict, summary["verdict_reason"]
    assert summary["completed"] == 1200
    if verdict == "decay":
        assert summary["verdict_reason"].startswith("hits fell by")
