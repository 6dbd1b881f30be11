"""`bench.py load` in a process of its own, and what it leaves."""

import csv
import json
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SERVER = {"components": ("full",), "context_length": 4096, "device_pages": 400,
          "hicache_ratio": 4.0, "hicache_write_policy": "write_through"}  # fmt: skip
TRAFFIC = ("--workload", "chat", "--set", "num_clients=12", "--set", "system_prompt_len=200",
           "--request-rate", "50", "--output-len", "5", "--users", "20",
           "--page-size", "16")  # fmt: skip


def command(url: str, folder: Path, *more: str) -> list[str]:
    where = ("--base-url", url, "--output-dir", str(folder), "--json")
    return [sys.executable, "bench.py", "load", *where, *TRAFFIC, *more]


def load(url: str, folder: Path, *more: str) -> tuple[int, dict]:
    done = subprocess.run(
        command(url, folder, *more), cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@contextmanager
def running(command: list[str]):
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def rows(folder: Path, summary: dict) -> list[dict]:
    with (folder / summary["run"] / "requests.csv").open() as file:
        return list(csv.DictReader(file))


def findings(folder: Path, summary: dict) -> list[dict]:
    lines = (folder / summary["run"] / "violations.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
