"""Knobs that a hunt of a release is held to, as a user types them: `components=full+swa`."""

import json
from collections.abc import Iterable
from typing import Any

from harness.explore.swarm import Feature, Knob, Number, Options
from harness.targets.sglang.eras import Era
from harness.targets.sglang.scenario import swarm
from harness.targets.sglang.shape import Shape

MOST_RUNNING = 3  # at once, in a small world
Held = tuple[tuple[str, Any], ...]


def held_of(words: Iterable[str], era: Era | None) -> Held:
    """What `NAME=VALUE` says, checked. Raises ValueError with one line."""
    knobs = swarm(era).knobs
    held = []
    for word in words:
        name, is_there, text = word.partition("=")
        knob = knobs.get(name)
        if not is_there or knob is None or not _may_be_held(knob):
            known = ", ".join(one for one in knobs if _may_be_held(knobs[one]))
            raise ValueError(f"{word!r} is no NAME=VALUE; there are {known}")
        held.append((name, _value(name, knob, text)))
    return tuple(held)


def words_of(shape: Shape, era: Era) -> list[str]:
    """The knobs of a server that small worlds can have too."""
    told: dict[str, Any] = {
        "components": "full+swa" if shape.window else "full",
        "page_size": shape.page_size,
        "ratio": float(shape.ratio),
        "policy": shape.policy,
        "overlap": shape.overlap,
        "mixed": shape.mixed,
        "schedule_policy": shape.schedule_policy,
        "running": min(shape.running, MOST_RUNNING),
        "together": True,
        "ranks": 1,
        "storage": "",
    }
    words = []
    for name, value in told.items():
        word = f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        try:
            held_of([word], era)
        except ValueError:
            continue
        words.append(word)
    return words


def _may_be_held(knob: Knob) -> bool:
    return isinstance(knob, Number | Options | Feature)


def _value(name: str, knob: Knob, text: str) -> Any:
    value = _read(text)
    match knob:
        case Options(values):
            allowed, says = value in values, ", ".join(dict.fromkeys(map(str, values)))
        case Number(low, high):
            whole = isinstance(value, int) and not isinstance(value, bool)
            allowed, says = whole and low <= value <= high, f"{low} to {high}"
        case _:
            allowed, says = isinstance(value, bool), "true or false"
    if not allowed:
        raise ValueError(f"{name} is one of {says}, not {text!r}")
    return value


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
