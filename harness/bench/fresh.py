"""Work done in a process of its own, so that its memory and its timers are nobody else's.

Invariant: the process starts anew, inherits nothing but the arguments, and ends with its one job.
"""

import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")

STATUS = Path("/proc/self/status")


def in_fresh_process(
    work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
) -> Result:
    """`work(*args, **kwargs)` in a new interpreter; what it returns or raises comes back."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()


def peak_rss_bytes() -> int:
    """The most memory that this process has had resident.

    Where Linux tells it, the high-water mark of the process's own memory: `ru_maxrss` also counts
    the parent's, as it was when the process was started."""
    if STATUS.is_file():
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
