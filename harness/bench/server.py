"""A server of our own, in a process of its own, for the benchmarks that talk to one."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0


@contextmanager
def server(flags: Sequence[str], folder: Path) -> Iterator[str]:
    """The URL of `bench.py serve` with `flags`, which keeps its run in `folder` and is ended."""
    command = [sys.executable, "-m", "bench", "serve", *flags, "--port", "0", "--json"]
    command += ["--output-dir", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield str(json.loads(process.stdout.readline())["url"])
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)
