"""Worker processes on this machine, started for one load and ended with it."""

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
LEAVE_S = 10.0


class Hands:
    """As a context manager: whoever is still there when the block ends is killed.

    They are in a session of their own, so that Ctrl-C reaches only the master, which ends them."""

    def __init__(self, workers: int, host: str, port: int, *, api_key: str) -> None:
        known = os.environ.get("PYTHONPATH", "")
        path = os.pathsep.join(filter(None, (str(ROOT), known)))
        environment = {**os.environ, "PYTHONPATH": path, "KVTORTURE_API_KEY": api_key}
        where = ["--master-host", host, "--master-port", str(port)]
        command = [sys.executable, "-m", "bench", "load", "--worker", *where]
        self._processes = [
            subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            for _ in range(workers)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            try:
                process.wait(LEAVE_S if error is None else 0.1)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def ended(self) -> list[str]:
        """A sentence for each that has ended."""
        codes = [(process.pid, process.poll()) for process in self._processes]
        return [f"worker process {pid} ended ({code})" for pid, code in codes if code is not None]
