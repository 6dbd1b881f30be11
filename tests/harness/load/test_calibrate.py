"""The client's floor is what both sides say of the same requests, and says when it is none."""

import json
import subprocess
import sys

import pytest

from harness.load.calibrate import Comparison, Floor, verdict_of
from harness.load.ended import Ended
from tests.harness.load.running import ROOT


def _ended(ttft_ns, server_ttft_ns, error=""):
    return Ended("r", "s", 0, "", "", (), 0, 1000, 1000 + ttft_ns, 9000, 200, error, 5, 64, 0, 0,
                 0, server_ttft_ns)  # fmt: skip


def test_a_difference_counts_whichever_side_says_more():
    comparison = Comparison()
    for ttft_ns, server_ns in ((5_000_000, 4_000_000), (4_000_000, 5_000_000)):
        comparison.add(_ended(ttft_ns, server_ns))
    assert comparison.difference_ms(50) == comparison.difference_ms(99) == 1.0
    assert (comparison.completed, comparison.failed, comparison.chunks) == (2, 0, 128)


def test_what_failed_or_has_no_record_is_no_measurement():
    comparison = Comparison()
    comparison.add(_ended(5, 4, error="CutShort"))
    comparison.add(_ended(5, -1))
    assert (comparison.completed, comparison.failed) == (0, 2)
    assert comparison.difference_ms(50) == float("inf")


GOOD = {"rate_asked": 100.0, "rate_sent": 99.0, "completed": 500, "failed": 0,
        "chunks_per_s": 6400.0, "ttft_p50_ms": 5.5, "difference_p50_ms": 0.4,
        "difference_p99_ms": 3.0, "lag_p50_ms": 0.5, "lag_p99_ms": 2.0,
        "cpu_share": 0.5}  # fmt: skip


@pytest.mark.parametrize(
    "worse",
    [{"difference_p50_ms": 1.1}, {"difference_p99_ms": 5.1}, {"rate_sent": 90.0}, {"failed": 1},
     {"lag_p99_ms": 60.0}],
    ids=lambda worse: next(iter(worse)),
)  # fmt: skip
def test_each_bound_can_be_missed(worse):
    good, bad = Floor(**GOOD), Floor(**{**GOOD, "rate_asked": 95.0, **worse})
    assert good.holds
    assert not bad.holds
    assert "stops holding at 95" in verdict_of([good, bad])
    assert "not hold even at 95" in verdict_of([bad])
    assert "highest rate that was tried" in verdict_of([good])


def test_calibrate_compares_every_request_with_the_servers_own_record():
    command = [sys.executable, "bench.py", "load", "--calibrate", "--request-rate", "10",
               "--duration", "1s", "--json"]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (floor,) = json.loads(done.stdout)["floors"]
    assert (floor["completed"], floor["failed"]) == (10, 0)
    assert floor["ttft_p50_ms"] >= 5.0  # the server waits so long before its first chunk
    assert 0 < floor["difference_p50_ms"] <= floor["difference_p99_ms"]
