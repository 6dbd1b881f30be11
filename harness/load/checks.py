"""Greedy answers must not depend on where the prefix came from.

A prompt that was answered during the run is asked again while the cache is warm, and once more
after a flush; the three answers must be equal. The first answer may have come from any tier.
"""

from collections.abc import Callable
from http.client import HTTPException
from typing import NamedTuple

from harness.load.asker import Asker
from harness.load.ended import Kept
from harness.load.exchange import Line
from harness.load.settings import MAX_CHECKED

Report = Callable[[str, str, str, str], None]


class Checked(NamedTuple):
    """Prompts that were asked again, and how many answers were not those of the run."""

    asked: int
    differed: int


def check_outputs(
    answered: list[Kept], asker: Asker, *, share: float, seed: int, report: Report
) -> Checked:
    """Nothing else may run meanwhile. `report(oracle, signature, expected, seen)` is told of every
    answer that differs."""
    count = min(MAX_CHECKED, max(1, round(share * len(answered)))) if answered else 0
    step = max(1, len(answered) // max(count, 1))
    chosen = answered[seed % step :: step][:count]
    line = asker.line()
    try:
        differed = sum(_differs(kept, asker, line, "warm", report) for kept in chosen)
        if _flushed(line):
            differed += sum(_differs(kept, asker, line, "flushed", report) for kept in chosen)
    finally:
        line.close()
    return Checked(len(chosen), differed)


def _differs(kept: Kept, asker: Asker, line: Line, when: str, report: Report) -> bool:
    again = line.complete(asker.body_again(kept), lambda: None)
    if again.error:
        report("C1", f"output.{when}.error", "an answer", again.error)
        return True
    if again.text == kept.text:
        return False
    at = _first_difference(kept.text.split(" "), again.text.split(" "))
    report(
        "C1", f"output.{when}", f"{kept.request_id}: {_around(kept.text, at)} at word {at}",
        _around(again.text, at),
    )  # fmt: skip
    return True


def _flushed(line: Line) -> bool:
    try:
        status, _ = line.fetch("POST", "/flush_cache?timeout=30")
    except (OSError, HTTPException):
        return False
    return status == 200


def _first_difference(one: list[str], other: list[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _around(text: str, at: int) -> str:
    return " ".join(text.split(" ")[at : at + 3])[:60] or "its end"
