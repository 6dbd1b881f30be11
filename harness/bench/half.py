"""A long load on our own server at half of what it can do: both sides must have counted the same.

Capacity is measured first, on a server of its own, by sending a burst. Invariant: the load is an
ordinary `load`, whose verdict compares the counts; the table only shows them.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.bench.server import ROOT, server
from harness.bench.sheet import Cell, Sheet

SERVER = ("--components", "full", "--device-pages", "2500", "--hicache-ratio", "4",
          "--hicache-write-policy", "write_through", "--compute", "roofline")  # fmt: skip
GROUPS = 60  # 4,096 tokens each that prompts share: more than the device has room for
TRAFFIC = ("--workload", "shared_prefix", "--set", f"num_groups={GROUPS}", "--set",
           "system_prompt_len=4096", "--set", "question_len=256", "--output-len", "32")  # fmt: skip
BURST = 180
MARGIN = 1.2
COUNTS = {
    "requests completed": ("completed", "server_completed_requests"),
    "prompt tokens": ("total_input_tokens", "server_prompt_tokens"),
    "output tokens": ("total_output_tokens", "server_output_tokens"),
    "cached tokens, device": ("cached_tokens_device", "server_cached_device_tokens"),
    "cached tokens, host": ("cached_tokens_host", "server_cached_host_tokens"),
}


def measure(seconds: int, *, burst: int = BURST) -> Sheet:
    with TemporaryDirectory() as folder:
        with server(SERVER, Path(folder)) as url:
            burst_of = ("--request-rate", "inf", *_prompts(burst))
            capacity = _load(url, folder, *burst_of)["request_throughput"]
        rate = capacity / 2
        with server(SERVER, Path(folder)) as url:
            prompts = _prompts(int(rate * seconds * MARGIN) + GROUPS)
            long = ("--request-rate", f"{rate:.3f}", "--duration", f"{seconds}s", *prompts)
            summary = _load(url, folder, *long)
    return Sheet(
        name="half",
        title=f"Half of the server's capacity for {seconds:,} s: both sides",
        notes=(
            f"A burst of {burst} requests was answered at {capacity:.2f} a second; then"
            f" {rate:.2f} a second were sent for {seconds:,} s to a fresh server, TTFT p50"
            f" {summary['median_ttft_ms']:.0f} ms, p99 {summary['p99_ttft_ms']:.0f} ms, the"
            f" client's CPU {summary['client_cpu_share']:.0%}.",
            f"Verdict: {summary['verdict']}; {summary['verdict_reason']}.",
        ),
        columns=("count", "client", "server", "difference"),
        rows=tuple(_row(name, summary, *keys) for name, keys in COUNTS.items()),
    )


def _row(name: str, summary: Mapping[str, Any], here: str, there: str) -> tuple[Cell, ...]:
    mine, theirs = int(summary[here]), int(summary[there])
    return name, mine, theirs, theirs - mine


def _prompts(count: int) -> tuple[str, ...]:
    return ("--set", f"prompts_per_group={-(-count // GROUPS)}", "--num-requests", str(count))


def _load(url: str, folder: str, *flags: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench", "load", "--base-url", url, "--json"]
    command += ["--output-dir", folder, *TRAFFIC, *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary
