"""Greedy answers must not depend on where the prefix came from.

A prompt that was answered during the run is asked again while the cache is warm, after others
have pushed it off the device, and after a flush; all answers must be equal. The first answer may
have come from any tier.
"""

import time
from collections.abc import Callable, Sequence
from http.client import HTTPException
from typing import NamedTuple

from harness.decay import answer_trend
from harness.load.asker import Asker
from harness.load.backends import hits_of
from harness.load.ended import Kept
from harness.load.exchange import Line, Outcome
from harness.load.settings import MAX_CHECKED
from workloads.tokens import Span

Report = Callable[[str, str, str, str], None]
FILL = 1.2  # of the device's pool: more than it holds, so that nothing older stays
FILL_S = 60.0  # no longer than this
FILLER_SEED = 0x66696C6C  # of a stream of tokens that no workload draws from
SHORTEST_FILLER = 256


class Checked(NamedTuple):
    """Prompts that were asked again, how many answers were not those of the run, and how many of
    the prompts came from below the device when they were asked after an eviction. `evicted` says
    how that went, `trend` whether wrong answers became more over the run."""

    asked: int
    differed: int
    loaded_back: int
    evicted: str
    trend: str


NOTHING_CHECKED = Checked(0, 0, 0, "", "")


def check_outputs(
    answered: Sequence[Kept],
    asker: Asker,
    *,
    share: float,
    seed: int,
    device_tokens: float,
    report: Report,
) -> Checked:
    """Nothing else may run meanwhile. `report(oracle, signature, expected, seen)` is told of every
    answer that differs. `device_tokens` is the size of the server's pool, 0 if it does not say."""
    count = min(MAX_CHECKED, max(1, round(share * len(answered)))) if answered else 0
    step = max(1, len(answered) // max(count, 1))
    chosen = list(answered[seed % step :: step][:count])
    check = _Check(asker, report)
    try:
        check.ask(chosen, "warm")
        evicted = check.evict(chosen, device_tokens)
        back = check.ask(chosen, "loaded_back")
        flushed = check.ask(chosen, "flushed") if check.flush() else back
    finally:
        check.close()
    below = sum(1 for outcome in back if hits_of(outcome).host or hits_of(outcome).storage)
    right = [kept.text == last.text for kept, last in zip(chosen, flushed, strict=True)]
    trend = answer_trend(right).why
    return Checked(len(chosen), check.differed, below, evicted, trend)


class _Check:
    """Asks on one line, and counts what differs."""

    def __init__(self, asker: Asker, report: Report) -> None:
        self._asker = asker
        self._report = report
        self._line: Line = asker.line()
        self.differed = 0

    def close(self) -> None:
        self._line.close()

    def ask(self, chosen: Sequence[Kept], when: str) -> list[Outcome]:
        """Every prompt once more; `when` names the finding."""
        outcomes = []
        for kept in chosen:
            outcome = self._line.complete(self._asker.body_again(kept), lambda: None)
            self.differed += self._differs(kept, outcome, when)
            outcomes.append(outcome)
        return outcomes

    def evict(self, chosen: Sequence[Kept], device_tokens: float) -> str:
        """Send prompts that share nothing until the device can hold nothing older."""
        if not device_tokens or not chosen:
            return "not evicted: the server tells no size of its pool" if chosen else ""
        longest = max(sum(span.length for span in kept.prompt) for kept in chosen)
        length, begun, sent = max(SHORTEST_FILLER, longest), time.monotonic(), 0
        while sent < FILL * device_tokens:
            if time.monotonic() - begun > FILL_S:
                return f"not all evicted: {sent:,} tokens took more than {FILL_S:g} s"
            filler = Kept(f"filler-{sent}", "", 0, (Span(FILLER_SEED, sent, length),), 1, "")
            outcome = self._line.complete(self._asker.body_again(filler), lambda: None)
            if outcome.error:
                return f"not all evicted: {outcome.error}"
            sent += length
        return f"evicted by {sent:,} tokens of other prompts"

    def flush(self) -> bool:
        try:
            status, _ = self._line.fetch("POST", "/flush_cache?timeout=30")
        except (OSError, HTTPException):
            return False
        return status == 200

    def _differs(self, kept: Kept, again: Outcome, when: str) -> bool:
        if again.error:
            self._report("C1", f"output.{when}.error", "an answer", again.error)
            return True
        if again.text == kept.text:
            return False
        at = _first_difference(kept.text.split(" "), again.text.split(" "))
        self._report(
            "C1", f"output.{when}", f"{kept.request_id}: {_around(kept.text, at)} at word {at}",
            _around(again.text, at),
        )  # fmt: skip
        return True


def _first_difference(one: list[str], other: list[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _around(text: str, at: int) -> str:
    return " ".join(text.split(" ")[at : at + 3])[:60] or "its end"
