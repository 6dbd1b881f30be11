"""A whole soak, records, plots and report included; its run directory is thrown away.

Invariant: the soak is the one that people run, with nothing left out and nothing added.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from harness.bench.bare import Excerpt, Ran, traffic_of
from harness.bench.fresh import peak_rss_bytes
from harness.record.directory import RunDirectory
from harness.record.machine import command_line
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.soak.live import SilentScreen
from harness.soak.plan import plan_server
from harness.soak.run import Soak
from harness.soak.settings import Oracles, Serving, Watching

SEED = 42


class SoakedRun:
    """Made for one run of `trace`, at its own speed."""

    def __init__(self, trace: Excerpt, *, oracles: Oracles) -> None:
        self._server, self._traffic = plan_server(Serving()), traffic_of(trace)
        self._oracles: Oracles = oracles

    def run(self) -> Ran:
        with TemporaryDirectory() as folder:
            watching = Watching(oracles=self._oracles, output_dir=folder, tag="bench")
            directory = RunDirectory.create(Path(folder), watching.tag)
            start, cpu_start = perf_counter(), process_time()
            with Recorder(directory, self._manifest()) as recorder:
                soak = Soak(
                    self._server,
                    self._traffic,
                    watching,
                    radix_cache=True,
                    warmup_requests=0,
                    recorder=recorder,
                    screen=SilentScreen(),
                )
                soaked = soak.run()
            elapsed, cpu = perf_counter() - start, process_time() - cpu_start
        summary = soaked.summary
        ended = ("completed", "rejected", "aborted")
        return Ran(
            requests=sum(int(summary[status] or 0) for status in ended),
            wall_s=elapsed,
            cpu_s=cpu,
            model_s=soak.world.kernel.now,
            events=int(summary["events"] or 0),
            operations=None,
            peak_rss_bytes=peak_rss_bytes(),
            violations=int(summary["violations"] or 0),
            digest=str(summary["digest"]),
        )

    def _manifest(self) -> Manifest:
        return Manifest(
            command=command_line(sys.argv),
            clock="virtual",
            seed=SEED,
            settings={"oracles": self._oracles},
            workload=self._traffic.workload.source,
        )
