"""Times of day in trace files, to the digit."""

import numpy as np

from workloads.errors import shown
from workloads.traces.lines import Line


def wall_ns(line: Line, name: str) -> int:
    """The field, such as 2023-11-16 18:17:03.9799600 (UTC, up to nine decimals), in ns of 1970."""
    text = line.text(name)
    bare = text.removesuffix("Z").removesuffix("+00:00")
    try:
        moment = np.datetime64(bare.replace(" ", "T"), "ns") if bare[:1].isdigit() else None
    except ValueError:
        moment = None
    if moment is None or "T" not in bare.replace(" ", "T"):
        line.refuse(f"{name} as a time such as 2023-11-16 18:17:03.9799600", shown(text))
    return int(moment.astype(np.int64))
