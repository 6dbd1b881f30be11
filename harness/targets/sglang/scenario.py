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
COMPONENTS = ("full+swa", "full+swa", "full", "full+mamba")
ALL_THREE = "full+swa+mamba"
PLAIN: dict[str, Any] = {
    "overlap": False,
    "mixed": False,
    "schedule_policy": "fcfs",
    "running": 1,
    "storage": "",
    "prefetch": "best_effort",
    "batch": 128,
    "threshold": 1,
}
POLICIES = ("write_through", "write_through_selective", "write_back")
STORAGE: dict[str, Knob] = {
    "storage": Options(("", "", "file")),
    "prefetch": Options(("best_effort", "wait_complete", "timeout")),
    "threshold": Options((1, 1, 4, 12)),  # tokens that are worth a prefetch
    "batch": Options((128, 1, 3)),  # pages in a call of the storage
    "stored": Options((0, 4, 99)),  # pages of each prompt that another server has put in
    "failing": Feature(0.25),  # storage refuses pages and loses some
}


def swarm(era: Era | None = None) -> Swarm:
    """Every schedule its own sizes, policies and request mix: those that this release takes, or
    that any does."""
    all_three = (ALL_THREE,) if era is None or era.all_three else ()
    small = (0.5, 0.5) if era is None or era.small_host else ()
    return Swarm(
        knobs={
            "components": Options((*COMPONENTS, *all_three)),
            "page_size": Options((1, 1, 2, 4, 64, 256)),
            "window": Number(1, 8),
            "spare": Number(0, 10),  # pages beyond what the largest request needs
            "swa_spare": Number(0, 6),
            "states": Number(0, 6),
            "ratio": Options((1.0, 2.0, 1.0, 1.0, 0.0, *small)),
            "policy": Options(POLICIES),
            # Tokens that prefixes are longer by: releases from 0.5.13 on load back 10 or more.
            "stretch": Options((0, 12, 12, 24)),
            "chunk": Number(1, 12),  # pages
            "running": Number(1, 3),
            "together": Feature(0.8),  # so many at once, where the release asks its context
            "overlap": Feature(0.5),
            "ranks": Options((1, 1, 1, 1, 2)),
            "served": Options((0, 0, 1, 2, 3)),  # requests that ended before the story begins
            "mixed": Feature(0.1),
            "schedule_policy": Options(("fcfs", "lpm")),
            "requests": Many(_REQUEST, 1, 10),
            **(STORAGE if era is None or era.storage else {}),
        },
        fixed={},
    )


def simpler(scenario: Scenario) -> Iterator[Scenario]:
    """Scenarios that tell the same in less. Sizes are kept as they came out, so that a request less
    does not change what the others meet: then requests that are served before the story begins, or
    are fewer or shorter, and then the sizes themselves."""
    sizes = shape_of(scenario)
    pinned = scenario if "sizes" in scenario else {**scenario, "sizes": sizes._asdict()}
    yield from _served(pinned)
    for name in ("requests", "stretch", "ranks", "together", "stored", "failing"):
        if name in pinned:
            for value in swarm().knobs[name].smaller(pinned[name]):
                yield {**pinned, name: value}
    for shape in _smaller_sizes(pinned, sizes):
        yield {**pinned, "sizes": shape._asdict()}
    if pinned is not scenario:
        drawn = {name: knob for name, knob in swarm().knobs.items() if name in scenario}
        yield from Swarm(knobs=drawn, fixed={}).smaller(scenario)


def _served(scenario: Scenario) -> Iterator[Scenario]:
    """One request more has been served before the story begins."""
    rows, served = scenario["requests"], int(scenario.get("served", 0))
    for at in range(served, len(rows)):
        moved = [*rows[:served], rows[at], *rows[served:at], *rows[at + 1 :]]
        yield {**scenario, "requests": moved, "served": served + 1}


def _smaller_sizes(scenario: Scenario, shape: Shape) -> Iterator[Shape]:
    """Fewer features, fewer chunks, smaller pools; never too small for a request that is alone."""
    for name, value in PLAIN.items():
        if getattr(shape, name) != value:
            yield shape._replace(**{name: value})
    if shape.ratio not in (0, 1):
        yield shape._replace(ratio=1.0)
    for times in (8, 4, 2):
        chunk = shape.chunk * times
        if chunk < 2 * shape.context:
            yield _roomy(scenario, shape._replace(chunk=chunk, prefill=4 * chunk))
    least = _roomy(scenario, shape._replace(full=0, swa=0))
    for name in ("full", "swa"):
        step = (getattr(shape, name) - getattr(least, name)) // shape.page_size
        while step > 0:
            size = getattr(shape, name) - step * shape.page_size
            yield _roomy(scenario, shape._replace(**{name: size}))
            step //= 2
    least_states = 3 * shape.running + 1
    if shape.states > least_states:
        yield shape._replace(states=least_states)
        yield shape._replace(states=shape.states - 1)


def _roomy(scenario: Scenario, shape: Shape) -> Shape:
    """The same with pools that are large enough."""
    full, swa = _least(scenario, shape.page_size, shape.chunk, shape.window)
    swa = max(shape.swa, swa)
    return shape._replace(swa=swa, full=max(shape.full, full, swa))


def _least(scenario: Scenario, page: int, chunk: int, window: int) -> tuple[int, int]:
    """The smallest pools in which the largest request fits with room to spare, whatever its own
    prefix keeps locked meanwhile: FULL, and 0 or SWA."""
    full = _pages(_longest(scenario, page) + 8 + chunk, page) + 3 * page
    if not window:
        return full, 0
    locked = chunk + window + ANSWER_AT_MOST + 2  # a node that reaches into the window
    return full, _pages(locked + max(chunk, window), page) + 3 * page


def shape_of(scenario: Scenario) -> Shape:
    """The server of a scenario: the sizes that it states, or such that its largest request fits
    with room to spare."""
    if "sizes" in scenario:
        return Shape(**scenario["sizes"])
    mamba, windowed = _has(scenario, "mamba"), _has(scenario, "swa")
    page = page_of(scenario)
    window = scenario["window"] * (page if page < 64 else page // 2) if windowed else 0
    chunk = max(scenario["chunk"] * page, 2)
    running = scenario["running"]
    full, swa = _least(scenario, page, chunk, window)
    full += scenario["spare"] * page
    swa += scenario["swa_spare"] * page if windowed else 0
    return Shape(
        page_size=page,
        full=max(full, swa),  # admission reserves a whole window of both
        swa=swa,
        window=window,
        states=3 * running + 1 + scenario["states"] if mamba else 0,
        ratio=scenario["ratio"],
        policy=scenario["policy"],
        chunk=chunk,
        prefill=4 * chunk,
        running=running,
        context=_longest(scenario, page) + 64,
        overlap=scenario["overlap"] and not mamba,
        mixed=scenario["mixed"],
        schedule_policy=scenario["schedule_policy"],
        **_storage(scenario),
    )


def _storage(scenario: Scenario) -> dict[str, Any]:
    """Storage needs a host tier. Replay files from before it was drawn do not say."""
    if not scenario.get("storage") or not scenario["ratio"]:
        return {}
    return {name: scenario[name] for name in ("storage", "prefetch", "threshold", "batch")}


def _has(scenario: Scenario, component: str) -> bool:
    return component in scenario["components"]


def _longest(scenario: Scenario, page: int) -> int:
    """Tokens of the longest request with its answer, over all turns of its conversation."""
    said: dict[int, int] = {}
    for row in sorted(scenario["requests"], key=lambda row: int(row["id"])):
        own = 1 + row["own"] + row["pages"] * page
        before = said.get(row["id"] - 1) if row["turn"] else None
        start = shared_of(scenario, row) if before is None else before
        said[row["id"]] = start + own + row["answer"]
    return max(said.values(), default=0)


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
