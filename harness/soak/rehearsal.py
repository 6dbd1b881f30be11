"""Rehearsals: what forwards take on this machine now, measured by a soak that leaves nothing else.

The same traffic, as fast as a few clients get answers, through a server of its own in this very
process: the scheduler, the threads beside it and N1 take their time in it as they will in the run.
Invariant: a rehearsal shares nothing with a run but the process and its settings.
"""

import gc
from dataclasses import replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.calibrate.forwards import Forward, forwards_of, lacking
from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.soak.live import SilentScreen
from harness.soak.plan import plan_server, plan_traffic
from harness.soak.run import Soak
from harness.soak.settings import Serving, Traffic, Watching
from harness.soak.wall import recorded_clock

CLIENTS = 4


def rehearse(
    serving: Serving, traffic: Traffic, watching: Watching, seconds: float
) -> list[Forward]:
    """Forwards of a soak that sends requests for so long. Raises `ValueError` where there were too
    few for a fit, and what has made it end before its time."""
    quick = replace(
        traffic,
        arrival="constant",
        request_rate=inf,
        max_concurrency=CLIENTS,
        num_requests=None,
        duration_s=seconds,
    )
    manifest = Manifest(command="", clock="wall", seed=traffic.seed, settings={}, workload={})
    with TemporaryDirectory() as folder:
        directory = RunDirectory.create(Path(folder), "rehearsal")
        with Recorder(directory, manifest) as recorder, recorded_clock(directory.path) as clock:
            soak = Soak(
                plan_server(serving, clock="wall", seed=traffic.seed),
                plan_traffic(quick),
                watching,
                radix_cache=serving.radix_cache,
                warmup_requests=0,
                recorder=recorder,
                screen=SilentScreen(),
                clock=clock,
            )
            ended = soak.drive()
        if ended.error is not None:
            raise ended.error
        if ended.reason == "stopped":
            raise KeyboardInterrupt
        forwards = forwards_of(directory.path)
    del soak
    gc.collect()  # its pools are the run's to use
    if short := lacking(forwards):
        raise ValueError(f"a rehearsal has {short}: give --calibrate longer, or more traffic")
    return forwards
