"""`bench.py serve` as people run it: a process that a signal ends."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[3]
FLAGS = ("--port", "0", "--json", "--compute", "null", "--components", "full",
         "--device-pages", "600")  # fmt: skip


@contextmanager
def _server(folder: Path, *more: str):
    command = [sys.executable, "bench.py", "serve", *FLAGS, "--output-dir", str(folder), *more]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_a_verdict_and_a_report(tmp_path, number):
    with _server(tmp_path) as (process, told):
        body = {"prompt": "hello", "max_tokens": 3}
        reply = httpx.post(f"{told['url']}/v1/completions", json=body, timeout=60)
        assert reply.json()["usage"]["completion_tokens"] == 3
        info = httpx.get(f"{told['url']}/get_server_info", timeout=60).json()
        assert info["page_size"] == 64
        assert "output_dir" not in info
        process.send_signal(number)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
    summary = json.loads(out)
    assert (summary["verdict"], summary["completed"]) == ("pass", 1)
    assert (tmp_path / summary["run"] / "report.html").is_file()
    page = json.loads((tmp_path / summary["run"] / "run.json").read_text())
    assert (page["clock"], page["status"]) == ("wall", "finished")


def test_a_defect_that_was_seen_is_exit_code_3(tmp_path):
    with _server(tmp_path, "--fault", "canary") as (process, told):
        for _ in range(2):
            body = {"prompt": list(range(200)), "max_tokens": 1}
            httpx.post(f"{told['url']}/v1/completions", json=body, timeout=60)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        assert process.returncode == 3


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--max-body-bytes", "0"), "--max-body-bytes must be above 0"),
        (("--fault", "canari"), "canary"),
        (("--fault", "canary", "--disable-radix-cache"), "drop --disable-radix-cache"),
        (("--port", "70000"), "70000"),
        (("--host", "192.0.2.1"), "--host 192.0.2.1"),
        (("--device-pages", "0"), "--device-pages"),
        (("--compute", "model", "--tp", "2"), "--tp 1"),
        (("--compute", "model", "--decoding", "trace"), "use --decoding greedy or sampled"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(tmp_path, flags, says):
    command = [sys.executable, "bench.py", "serve", *FLAGS, *flags, "--output-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
