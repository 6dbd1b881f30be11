"""`bench.py load` against real servers: ours, a defective one, one that dies, one that stalls."""

import csv
import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.serve.limits import ServeLimits
from tests.harness.serve.live import serving

ROOT = Path(__file__).resolve().parents[3]
SERVER = {"components": ("full",), "context_length": 4096, "device_pages": 400,
          "hicache_ratio": 4.0, "hicache_write_policy": "write_through"}  # fmt: skip
TRAFFIC = ("--workload", "chat", "--set", "num_clients=12", "--set", "system_prompt_len=200",
           "--request-rate", "50", "--output-len", "5", "--users", "20",
           "--page-size", "16")  # fmt: skip


def _command(url: str, folder: Path, *more: str) -> list[str]:
    where = ("--base-url", url, "--output-dir", str(folder), "--json")
    return [sys.executable, "bench.py", "load", *where, *TRAFFIC, *more]


def _load(url: str, folder: Path, *more: str) -> tuple[int, dict]:
    done = subprocess.run(
        _command(url, folder, *more), cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def _rows(folder: Path, summary: dict) -> list[dict]:
    with (folder / summary["run"] / "requests.csv").open() as file:
        return list(csv.DictReader(file))


def _findings(folder: Path, summary: dict) -> list[dict]:
    lines = (folder / summary["run"] / "violations.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_both_sides_count_the_same_requests_tokens_and_hits(tmp_path):
    with serving(tmp_path / "server", **SERVER) as live:
        code, summary = _load(live.url, tmp_path, "--num-requests", "40", "--check-output", "0.1")
    served = live.served[0].summary
    assert code == (0 if summary["verdict"] == "pass" else 5)  # a slow machine may degrade it
    assert summary["completed"] == summary["server_completed_requests"] == 40
    assert summary["total_input_tokens"] == summary["server_prompt_tokens"]
    assert summary["total_output_tokens"] == summary["server_output_tokens"] == 200
    for tier in ("device", "host"):
        assert summary[f"cached_tokens_{tier}"] == summary[f"server_cached_{tier}_tokens"]
    assert summary["cached_tokens_device"] > 0
    assert (summary["outputs_checked"], summary["outputs_differed"]) == (4, 0)
    assert served["completed"] == 40 + 2 * 4
    rows = _rows(tmp_path, summary)
    assert len({row["request_id"] for row in rows}) == 40
    assert all(float(row["ttft_ms"]) > 0 for row in rows)
    assert (tmp_path / summary["run"] / "report.html").is_file()


def test_a_cache_that_answers_wrongly_is_found_by_both_sides(tmp_path):
    with serving(tmp_path / "server", fault="canary", **SERVER) as live:
        code, summary = _load(live.url, tmp_path, "--num-requests", "20", "--check-output", "1")
    assert code == 3
    kinds = {finding["signature"] for finding in _findings(tmp_path, summary)}
    assert "violations" in kinds  # the server's own oracles
    assert summary["outputs_differed"] > 0
    assert kinds & {"output.warm", "output.flushed"}


def test_a_server_that_dies_is_a_finding_with_its_last_word(tmp_path):
    limits = ServeLimits(drain_s=0.1)
    with serving(tmp_path / "server", limits=limits, compute="roofline", **SERVER) as live:
        command = _command(live.url, tmp_path, "--request-rate", "5")
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        while not live.metrics()["sglang:num_requests_total"]:
            pass
    out, _ = process.communicate(timeout=240)
    summary = json.loads(out)
    assert process.returncode == 3
    assert [f["signature"] for f in _findings(tmp_path, summary)] == ["server.gone"]
    assert summary["failed"] > 0
    assert summary["errors"]


@contextmanager
def _silent_server():
    """Lists a model, takes requests and never says more."""
    listening = socket.create_server(("127.0.0.1", 0))
    models = b'{"data": [{"id": "m"}]}'
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"
    held = []

    def serve():
        while True:
            try:
                sock, _ = listening.accept()
            except OSError:
                return
            held.append(sock)
            threading.Thread(target=answer, args=(sock,)).start()

    def answer(sock):
        asked = sock.recv(65536)
        while asked:
            if asked.startswith(b"GET /v1/models"):
                sock.sendall(head % len(models) + models)
            elif asked.startswith(b"GET /metrics"):
                sock.sendall(head % 0)
            asked = sock.recv(65536)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
        for sock in held:
            sock.close()


def test_a_server_that_stalls_is_a_finding(tmp_path):
    with _silent_server() as url:
        code, summary = _load(url, tmp_path, "--stall-timeout", "2s")
    assert code == 3
    found = _findings(tmp_path, summary)
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
    command = _command("http://127.0.0.1:9", tmp_path, *flags)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []
