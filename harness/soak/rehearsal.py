"""Rehearsals: what forwards take on this machine now, measured by a soak that leaves nothing else.

The beginning of the same traffic at its own pace, through a server of its own in this very process:
the scheduler, the threads beside it and N1 take their time in it as they will in the run. At
another pace they would not: a machine that has other things to do treats a process that is never
idle worse than one that sleeps between bursts.
Invariant: a rehearsal shares nothing with a run but the process and its settings.
"""

import gc
from dataclasses import replace
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


def rehearse(
    serving: Serving, traffic: Traffic, watching: Watching, seconds: float
) -> list[Forward]:
    """Forwards of a soak that sends requests for so long. Raises `ValueError` where there were too
    few for a fit, and what has made it end before its time."""
    beginning = replace(traffic, num_requests=None, duration_s=min(seconds, traffic.duration_s))
    manifest = Manifest(command="", clock="wall", seed=traffic.seed, settings={}, workload={})
    with TemporaryDirectory() as folder:
        directory = RunDirectory.create(Path(folder), "rehearsal")
        with Recorder(directory, manifest) as recorder, recorded_clock(directory.path) as clock:
            soak = Soak(
                plan_server(serving, clock="wall", seed=traffic.seed),
                plan_traffic(beginning),
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
