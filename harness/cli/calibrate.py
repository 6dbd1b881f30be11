"""`bench.py load --calibrate`: rates one after the other against a null server, and a table."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from harness.bench.sheet import show
from harness.cli.errors import UserError
from harness.cli.load_crew import crew_maker
from harness.load.calibrate import (
    CHUNKS,
    INPUT_LEN,
    WARMUP,
    Comparison,
    Floor,
    sheet_of,
    verdict_of,
)
from harness.load.crew import Crew  # imports Locust, and so comes first
from harness.load.settings import Loading
from harness.load.tally import Sink
from harness.soak.plan import plan_traffic
from harness.soak.settings import Traffic
from harness.verdict import Exit

ROOT = Path(__file__).resolve().parents[2]
RATES = (25.0, 50.0, 100.0, 200.0, 400.0, 800.0)
RATE_S = 5.0
PATIENCE_S = 60.0
PLAIN_WIDTH = 160


def run(context: click.Context, flags: Mapping[str, Any], loading: Loading) -> int:
    """Measure, tell. Returns the exit code."""
    if flags["master"]:
        raise UserError("--calibrate measures this machine: use --processes, not --master")
    rates = RATES if flags["request_rate"] is None else (flags["request_rate"],)
    seconds = RATE_S if flags["duration_s"] == inf else flags["duration_s"]
    floors = []
    with _null_server() as url:
        for rate in rates:
            floors.append(_floor(context, flags, loading, url, rate, seconds))
            if not floors[-1].holds:
                break
    if flags["json"]:
        click.echo(json.dumps({"floors": [{**asdict(f), "holds": f.holds} for f in floors]}))
        return Exit.PASS
    terminal = sys.stdout.isatty()
    show(sheet_of(floors, flags["processes"]), Console(width=None if terminal else PLAIN_WIDTH))
    click.echo(verdict_of(floors))
    return Exit.PASS


def _floor(
    context: click.Context,
    flags: Mapping[str, Any],
    loading: Loading,
    url: str,
    rate: float,
    seconds: float,
) -> Floor:
    count = max(2, round(rate * seconds))
    traffic = Traffic(
        workload="unique",
        set=(("num_requests", str(count)), ("input_len", str(INPUT_LEN))),
        arrival="constant",
        request_rate=rate,
    )
    users = round(rate) + 16  # an answer takes a third of a second
    own = replace(loading, base_url=url, backend="openai", users=users, output_len=CHUNKS)
    plan = plan_traffic(traffic)
    make: Callable[[Sink], Crew] = crew_maker(context, flags, own, traffic, plan, model="null")
    comparison = Comparison(warmup=min(WARMUP, count // 2))
    crew = make(comparison)
    crew.run()
    sent_s = comparison.last_ns / 1e9
    return Floor(
        rate_asked=rate,
        rate_sent=(comparison.completed - 1) / sent_s if sent_s > 0 else 0.0,
        completed=comparison.completed,
        failed=comparison.failed,
        chunks_per_s=comparison.chunks / sent_s if sent_s > 0 else 0.0,
        ttft_p50_ms=comparison.ttft_ms(50),
        difference_p50_ms=comparison.difference_ms(50),
        difference_p99_ms=comparison.difference_ms(99),
        lag_p50_ms=crew.health.lags.percentile(50) * 1e3,
        lag_p99_ms=crew.health.lags.percentile(99) * 1e3,
        cpu_share=crew.cpu_share,
    )


@contextmanager
def _null_server() -> Iterator[str]:
    known = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join(filter(None, (str(ROOT), known)))
    command = [sys.executable, "-m", "bench", "serve", "--null", "--port", "0", "--json"]
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield str(json.loads(process.stdout.readline())["url"])
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
