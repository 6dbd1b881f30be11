"""Locust's own page beside a load, and Locust's own command line with our users and record."""

import json
import os
import subprocess
import sys

import httpx
import pytest

from tests.harness.load.running import ROOT, SERVER, command, free_port, rows, running
from tests.harness.serve.live import serving


def test_the_page_shows_the_load_and_its_stop_ends_it(tmp_path):
    port = free_port()
    page = f"http://127.0.0.1:{port}"
    flags = ("--web", "--web-port", str(port), "--request-rate", "5", "--set", "num_clients=300")
    with (
        serving(tmp_path / "server", **SERVER) as live,
        running(command(live.url, tmp_path, *flags)) as process,
        httpx.Client(base_url=page, timeout=60) as client,
    ):
        while _shown(client) < 3:
            assert process.poll() is None
        assert "<html" in client.get("/").text
        assert client.post("/stop").json()["success"]
        out, _ = process.communicate(timeout=240)
    summary = json.loads(out)
    assert process.returncode == (0 if summary["verdict"] == "pass" else 5)
    assert len(rows(tmp_path, summary)) == summary["completed"] >= 3


def _shown(client) -> int:
    """Requests that the page counts, 0 while it is not there."""
    try:
        stats = client.get("/stats/requests").json()["stats"]
    except httpx.TransportError:
        return 0
    return max(entry["num_requests"] for entry in stats)


def _locust(folder, url, *more, **flags) -> subprocess.CompletedProcess:
    said = {f"KVTORTURE_{name.upper()}": value for name, value in flags.items()}
    environment = {**os.environ, "KVTORTURE_OUTPUT_DIR": str(folder), "KVTORTURE_JSON": "1", **said}
    words = [sys.executable, "-m", "locust", "-f", "locustfile.py", "--headless", "--only-summary"]
    return subprocess.run(
        [*words, "--host", url, "-u", "8", "-r", "100", *more],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def test_locust_alone_runs_the_same_load_with_our_record(tmp_path):
    with serving(tmp_path / "server", **SERVER) as live:
        done = _locust(tmp_path, live.url, workload="chat", set="num_clients=6 think_time_s=0.1",
                       request_rate="20", output_len="4", num_requests="12",
                       page_size="16")  # fmt: skip
    line = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    summary = json.loads(line)
    assert done.returncode == (0 if summary["verdict"] == "pass" else 5), done.stderr
    assert summary["completed"] == summary["server_completed_requests"] == 12
    assert len(rows(tmp_path, summary)) == 12


@pytest.mark.parametrize(
    ("more", "flags", "says"),
    [
        ((), {"workload": "nonsense"}, "no workload is called 'nonsense'"),
        (("--processes", "2"), {}, "bench.py load --processes"),
    ],
)
def test_what_locust_alone_cannot_do_is_exit_code_2(tmp_path, more, flags, says):
    done = _locust(tmp_path, "http://127.0.0.1:9", *more, **flags)
    assert done.returncode == 2
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []
