"""What a small server is made of, as plain data; every schedule draws one of its own.

Invariant: only what the release accepts is drawn (where it insists, host pools larger than the
device's; a page of 1 with recurrent states), and every request fits into an empty cache, so
whoever waits for ever waits for something that was lost.
"""

from collections.abc import Iterator
from typing import Any

from harness.explore.outcome import Scenario
from harness.explore.swarm import Feature, Knob, Many, Number, Options, Swarm
from harness.targets.sglang.eras import Era
from harness.targets.sglang.prompts import page_of, shared_of
from harness.targets.sglang.shape import Shape

ANSWER_AT_MOST = 6  # tokens

_REQUEST: dict[str, Knob] = {
    "group": Number(0, 2),
    "shared": Number(0, 7),  # pages of the group's prefix, stretched where it is not empty
    "tail": Number(0, 2),  # which tail stands behind it
    "pages": Number(0, 3),  # whole pages of that tail
    "own": Number(0, 3),  # and tokens
    "answer": Number(1, ANSWER_AT_MOST),
    "turn": Feature(0.2),  # goes on where the request before it ended
    "waits": Feature(0.5),  # is sent when the request before it has ended
    "abort": Feature(0.15),
}
COMPONENTS = ("full+swa", "full", "full+mamba")
POLICIES = ("write_through", "write_through_selective", "write_back")


def swarm(era: Era | None = None) -> Swarm:
    """Every schedule its own sizes, policies and request mix: those that this release takes, or
    that any does."""
    small = (0.5, 0.5) if era is None or era.small_host else ()
    return Swarm(
        knobs={
            "components": Options(("full+swa", "full+swa", "full", "full+mamba")),
            "page_size": Options((1, 1, 2, 4, 64, 256)),
            "window": Number(1, 8),
            "spare": Number(0, 10),  # pages beyond what the largest request needs
            "swa_spare": Number(0, 6),
            "states": Number(0, 6),
            "ratio": Options((1.0, 2.0, 1.0, 1.0, 0.0, *small)),
            "policy": Options(POLICIES),
            # Tokens that prefixes are longer by: releases from 0.5.13 on load back 10 or more.
            "stretch": Options((0, 12, 12, 24)),
            "chunk": Number(1, 5),  # pages
            "running": Number(1, 3),
            "together": Feature(0.8),  # so many at once, where the release asks its context
            "overlap": Feature(0.5),
            "ranks": Options((1, 1, 1, 1, 2)),
            "mixed": Feature(0.1),
            "schedule_policy": Options(("fcfs", "lpm")),
            "requests": Many(_REQUEST, 1, 10),
        },
        fixed={},
    )


def simpler(scenario: Scenario) -> Iterator[Scenario]:
    """Scenarios that differ in one knob and are simpler there."""
    yield from swarm().smaller(scenario)


def shape_of(scenario: Scenario) -> Shape:
    """The server of a scenario: the sizes that it states, or such that its largest request fits
    with room to spare, whatever its own prefix keeps locked meanwhile."""
    if "sizes" in scenario:
        return Shape(**scenario["sizes"])
    mamba, windowed = _has(scenario, "mamba"), _has(scenario, "swa")
    page = page_of(scenario)
    window = scenario["window"] * (page if page < 64 else page // 2) if windowed else 0
    chunk = max(scenario["chunk"] * page, 2)
    longest = _longest(scenario, page)
    locked = chunk + window + ANSWER_AT_MOST + 2  # a node that reaches into the window
    swa = _pages(locked + max(chunk, window), page) + (3 + scenario["swa_spare"]) * page
    full = _pages(longest + 8 + chunk, page) + (3 + scenario["spare"]) * page
    full = max(full, swa) if windowed else full  # admission reserves a whole window of both
    running = scenario["running"]
    return Shape(
        page_size=page,
        full=full,
        swa=swa if windowed else 0,
        window=window,
        states=3 * running + 1 + scenario["states"] if mamba else 0,
        ratio=scenario["ratio"],
        policy=scenario["policy"],
        chunk=chunk,
        prefill=4 * chunk,
        running=running,
        context=longest + 64,
        overlap=scenario["overlap"] and not mamba and scenario.get("ranks", 1) == 1,
        mixed=scenario["mixed"],
        schedule_policy=scenario["schedule_policy"],
    )


def _has(scenario: Scenario, component: str) -> bool:
    return component in scenario["components"]


def _longest(scenario: Scenario, page: int) -> int:
    """Tokens of the longest request with its answer, over all turns of its conversation."""
    best = before = 0
    for row in scenario["requests"]:
        own = 1 + row["own"] + row["pages"] * page
        start = before if row["turn"] and before else shared_of(scenario, row)
        before = start + own + row["answer"]
        best = max(best, before)
    return best


def _pages(tokens: int, page: int) -> int:
    return -(-tokens // page) * page


def complete(scenario: dict[str, Any]) -> Scenario:
    """A scenario written by hand, with the simplest value for whatever it leaves out."""
    full: dict[str, Any] = {}
    for name, knob in swarm().knobs.items():
        full[name] = scenario.get(name, _simplest(knob))
    rows = [{n: _simplest(k) for n, k in _REQUEST.items()} | row for row in full["requests"]]
    full["requests"] = [{"id": at, **row} for at, row in enumerate(rows)]
    return full


def _simplest(knob: Knob) -> Any:
    match knob:
        case Number(low, _):
            return low
        case Options(values):
            return values[0]
        case Feature():
            return False
        case _:
            return []
