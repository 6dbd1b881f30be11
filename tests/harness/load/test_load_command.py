"""`bench.py load` against real servers: ours, a defective one, one that dies, one that stalls."""

import json
import socketserver
import subprocess
import threading
from contextlib import contextmanager, suppress

import pytest

from harness.serve.limits import ServeLimits
from tests.harness.load.running import ROOT, SERVER, command, findings, load, rows, running
from tests.harness.serve.live import serving


def test_both_sides_count_the_same_requests_tokens_and_hits(tmp_path):
    with serving(tmp_path / "server", **SERVER) as live:
        code, summary = load(live.url, tmp_path, "--num-requests", "40", "--check-output", "0.1")
    served = live.served[0].summary
    assert code == (0 if summary["verdict"] == "pass" else 5)  # a slow machine may degrade it
    assert summary["completed"] == summary["server_completed_requests"] == 40
    assert summary["total_input_tokens"] == summary["server_prompt_tokens"]
    assert summary["total_output_tokens"] == summary["server_output_tokens"] == 200
    for tier in ("device", "host"):
        assert summary[f"cached_tokens_{tier}"] == summary[f"server_cached_{tier}_tokens"]
    assert summary["cached_tokens_device"] > 0
    assert (summary["outputs_checked"], summary["outputs_differed"]) == (4, 0)
    assert summary["outputs_evicted"].startswith("evicted by")
    assert served["completed"] > 40 + 3 * 4  # and what evicted them
    found = rows(tmp_path, summary)
    assert len({row["request_id"] for row in found}) == 40
    assert all(float(row["ttft_ms"]) > 0 for row in found)
    assert (tmp_path / summary["run"] / "report.html").is_file()


def test_a_cache_that_answers_wrongly_is_found_by_both_sides(tmp_path):
    with serving(tmp_path / "server", fault="canary", **SERVER) as live:
        code, summary = load(live.url, tmp_path, "--num-requests", "20", "--check-output", "1")
    assert code == 3
    kinds = {finding["signature"] for finding in findings(tmp_path, summary)}
    assert "violations" in kinds  # the server's own oracles
    assert summary["outputs_differed"] > 0
    assert kinds & {"output.warm", "output.loaded_back", "output.flushed"}


def test_a_server_that_dies_is_a_finding_with_its_last_word(tmp_path):
    limits = ServeLimits(drain_s=0.1)
    with (
        serving(tmp_path / "server", limits=limits, compute="roofline", **SERVER) as live,
        running(command(live.url, tmp_path, "--request-rate", "5")) as process,
    ):
        while not live.metrics()["sglang:num_requests_total"]:
            assert process.poll() is None
        live.stop()
        out, _ = process.communicate(timeout=240)
    summary = json.loads(out)
    assert process.returncode == 3
    assert [f["signature"] for f in findings(tmp_path, summary)] == ["server.gone"]
    assert summary["failed"] > 0
    assert summary["errors"]


class SilentServer(socketserver.ThreadingTCPServer):
    """Lists a model, takes requests and never says more."""

    allow_reuse_address = True
    daemon_threads = False  # closing it waits for every connection's thread


class _Silent(socketserver.BaseRequestHandler):
    MODELS = b'{"data": [{"id": "m"}]}'
    HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"

    def handle(self):
        with suppress(OSError):  # who loads it may hang up at any moment
            while asked := self.request.recv(65536):
                if asked.startswith(b"GET /v1/models"):
                    self.request.sendall(self.HEAD % len(self.MODELS) + self.MODELS)
                elif asked.startswith(b"GET "):
                    self.request.sendall(self.HEAD % 0)


@contextmanager
def _silent_server():
    with SilentServer(("127.0.0.1", 0), _Silent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_a_server_that_stalls_is_a_finding(tmp_path):
    with _silent_server() as url:
        code, summary = load(url, tmp_path, "--stall-timeout", "2s")
    assert code == 3
    found = findings(tmp_path, summary)
    assert [f["signature"] for f in found] == ["stall"]
    assert "in flight" in found[0]["seen"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--base-url", "ftp://a"), "use http://HOST:PORT"),
        (("--base-url", "http://127.0.0.1:9"), "start a server there"),
        (("--users", "0"), "--users must be above 0"),
        (("--trace", "x.jsonl"), "exclude each other"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(tmp_path, flags, says):
    typed = command("http://127.0.0.1:9", tmp_path, *flags)
    done = subprocess.run(typed, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []
