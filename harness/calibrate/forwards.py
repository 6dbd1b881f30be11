"""A preset made of forwards that a run has measured, scheduler and all.

A sample is a scheduler's turn: from where it went on until the forward that it launched was over.
So whatever takes time in the run (planning, oracles, threads that recompute and copy beside it) is
in the preset, as it was then and there. What is fitted is the mean, for a first token waits for
many turns, one after the other. Invariant: prefills and decodes weigh the same, however many more
there are of one kind.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cache.model import KvDtype, ModelShape
from harness.calibrate.compute import Terms, fit
from harness.calibrate.findings import Settings
from harness.engine.compute import RooflineCompute, Work
from harness.engine.hardware import Hardware, base_of
from harness.record.forwards import read_forwards

LEAST = 20  # forwards of a kind, below which a fit says little
LONGEST = 3.0
ROUNDS = 8
Floats = NDArray[np.float64]


class Forward(NamedTuple):
    """`turn_s` the scheduler took before it was launched, `seconds` itself took until it was heard
    of."""

    work: Work
    turn_s: float
    seconds: float

    @property
    def all_s(self) -> float:
        return self.turn_s + self.seconds


def forwards_of(folder: Path) -> list[Forward]:
    """Those of a run directory. Raises `OSError`, or `ValueError` where there are none."""
    found = [
        Forward(Work(*cells), turn_s, seconds)
        for cells, turn_s, seconds in read_forwards(folder, Work._fields)
    ]
    if not found:
        raise ValueError(f"{folder} has no forward that waited for nothing")
    return found


def preset_of(forwards: Sequence[Forward], settings: Settings, source: str) -> Hardware:
    """The hardware on which a roofline takes these times."""
    terms = Terms(settings)
    rows = np.array([terms.of(forward.work) for forward in forwards])
    seconds = np.array([forward.all_s for forward in forwards])
    prefills = np.array([forward.work.prefill_tokens > 0 for forward in forwards])
    weights = np.where(prefills, 1 / max(1, prefills.sum()), 1 / max(1, (~prefills).sum()))
    fields = terms.fields(rows, *_towards_means(rows, seconds, weights))
    named: dict[str, Any] = {**fields, "name": "rehearsed", "source": source}
    return replace(base_of(settings.device), **named)


def _towards_means(rows: Floats, seconds: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Times and weights with which a fit of relative errors goes through means. As it is, it counts
    an error as a share of what was measured, so whoever is slow counts for less; here it is a share
    of what is fitted. A hiccup of the machine counts as `LONGEST` times as long as the rest."""
    clipped = seconds
    even = weights
    for _ in range(ROUNDS):
        fitted = np.maximum(rows @ fit(rows, clipped, even), 1e-9)
        clipped = np.minimum(seconds, LONGEST * fitted)
        even = weights * (clipped / fitted) ** 2
    return clipped, even


def quarters_of(
    hardware: Hardware, forwards: Sequence[Forward], settings: Settings
) -> tuple[float, ...]:
    """How much of what the preset says prefills took, all together, in each quarter of them."""
    prefills = [forward for forward in forwards if forward.work.prefill_tokens]
    taken = [(forward.all_s, _said(hardware, settings, forward)) for forward in prefills]
    size = max(1, -(-len(taken) // 4))
    quarters = [taken[at : at + size] for at in range(0, len(taken), size)]
    return tuple(sum(took for took, _ in q) / sum(said for _, said in q) for q in quarters)


def share_of(
    hardware: Hardware, forwards: Sequence[Forward], settings: Settings, *, prefill: bool
) -> float:
    """How much of what the preset says a forward of that kind took, in the middle; NaN of none."""
    kind = [forward for forward in forwards if (forward.work.prefill_tokens > 0) == prefill]
    shares = [forward.all_s / _said(hardware, settings, forward) for forward in kind]
    return median(shares) if shares else float("nan")


def _said(hardware: Hardware, settings: Settings, forward: Forward) -> float:
    roofline = RooflineCompute(
        settings.shape,
        hardware,
        tp=1,
        kv_dtype=settings.kv_dtype,
        page_size=settings.page_size,
    )
    return roofline.step_s(forward.work)


def lacking(forwards: Sequence[Forward]) -> str:
    """What there is too little of for a fit, in words; empty if there is enough."""
    prefills = sum(forward.work.prefill_tokens > 0 for forward in forwards)
    for kind, count in (("prefills", prefills), ("decodes", len(forwards) - prefills)):
        if count < LEAST:
            return f"{count} {kind}, and a fit takes {LEAST}"
    return ""


def settings_for(shape: ModelShape, page_size: int, kv_dtype: str, device: str) -> Settings:
    """Of one rank's run, whose forwards are samples of their own."""
    return Settings(
        shape=shape,
        page_size=page_size,
        kv_dtype=KvDtype(kv_dtype),
        tp=1,
        device=device,
        repeats=1,
    )
