"""Two Locust workers send one load: nothing is lost or sent twice, and a death is told."""

import json
import signal
import sys
from collections import defaultdict

import psutil

from harness.load.share import chosen
from harness.soak.plan import plan_traffic
from harness.soak.settings import Traffic
from tests.harness.load.running import SERVER, command, free_port, load, rows, running
from tests.harness.serve.live import serving

SENT = 40
PLAN = plan_traffic(
    Traffic(
        workload="chat",
        set=(("num_clients", "12"), ("system_prompt_len", "200")),
        request_rate=50.0,
        num_requests=SENT,
    )
)  # what TRAFFIC says


def test_a_master_and_two_workers_send_each_request_once_and_at_its_time(tmp_path):
    port = str(free_port())
    worker = [sys.executable, "bench.py", "load", "--worker", "--master-port", port]
    master = ("--master", "--expect-workers", "2", "--master-bind-port", port)
    with (
        serving(tmp_path / "server", **SERVER) as live,
        running(worker) as one,
        running(worker) as other,
    ):
        code, summary = load(
            live.url, tmp_path, *master, "--num-requests", str(SENT), "--check-output", "0.1"
        )
        assert (one.wait(60), other.wait(60)) == (0, 0)
        assert live.metrics()["sglang:num_requests_total"] > SENT  # answers were asked for again
    assert code == (0 if summary["verdict"] == "pass" else 5)  # a slow machine may degrade it
    assert summary["completed"] == summary["server_completed_requests"] == SENT
    assert summary["total_output_tokens"] == summary["server_output_tokens"] == 5 * SENT
    assert summary["cached_tokens_device"] == summary["server_cached_device_tokens"] > 0
    assert (summary["outputs_checked"], summary["outputs_differed"]) == (4, 0)
    wanted = {turn.request_id: turn for session in chosen(PLAN.workload, SENT)
              for turn in session.turns}  # fmt: skip
    found = rows(tmp_path, summary)
    assert sorted(row["request_id"] for row in found) == sorted(wanted)
    for row in found:
        if row["turn"] == "0":
            due_ns = int(wanted[row["request_id"]].arrival_s * 1e9)
            assert int(row["scheduled_ns"]) == due_ns
    page = json.loads((tmp_path / summary["run"] / "run.json").read_text())
    assert page["workload"]["digest"] == PLAN.workload.digest()


def test_a_worker_that_dies_ends_the_load_and_what_it_reported_stays(tmp_path):
    with serving(tmp_path / "server", compute="roofline", **SERVER) as live:
        flags = ("--processes", "2", "--request-rate", "2", "--set", "num_clients=500")
        with running(command(live.url, tmp_path, *flags)) as process:
            while live.metrics()["sglang:num_requests_total"] < 6:
                assert process.poll() is None
            psutil.Process(process.pid).children()[0].send_signal(signal.SIGKILL)
            out, _ = process.communicate(timeout=240)
        assert process.returncode == 5
    summary = json.loads(out)
    assert "worker process" in summary["verdict_reason"]
    assert "before the load was over" in summary["verdict_reason"]
    found = rows(tmp_path, summary)
    assert len(found) == summary["completed"] > 0
    turns = defaultdict(list)
    for row in found:
        turns[row["session_id"]].append(int(row["turn"]))
    assert all(sorted(numbers) == [*range(len(numbers))] for numbers in turns.values())
