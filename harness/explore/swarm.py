"""Swarm scenarios: every schedule gets its own sizes, mix and switches.

One fixed "realistic" scenario hides whole kinds of bugs; many small odd ones do not.

Invariant: a drawn scenario is plain data (numbers, text, lists, dicts), and ``smaller`` yields
only scenarios that could have been drawn.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.explore.outcome import Scenario
from harness.explore.prng import SplitMix, derive


class Knob(Protocol):
    """One dimension of a scenario."""

    def draw(self, rng: SplitMix) -> Any:
        """A value."""
        ...

    def smaller(self, value: Any) -> Iterator[Any]:
        """Simpler values than ``value``, the simplest first."""
        ...


@dataclass(frozen=True)
class Number:
    """A whole number from ``low`` to ``high``, both included; the small half is drawn as often as
    the rest, because pressure comes sooner in small worlds. Simplest is ``low``."""

    low: int
    high: int

    def draw(self, rng: SplitMix) -> int:
        high = self.high if rng.below(2) else (self.low + self.high) // 2
        return self.low + rng.below(high - self.low + 1)

    def smaller(self, value: int) -> Iterator[int]:
        step = value - self.low
        while step > 0:
            yield value - step
            step //= 2


@dataclass(frozen=True)
class Options:
    """One of several values; the simplest comes first. Any of them is simpler than a value that
    was written by hand and is none of them."""

    values: tuple[Any, ...]

    def draw(self, rng: SplitMix) -> Any:
        return rng.choice(self.values)

    def smaller(self, value: Any) -> Iterator[Any]:
        known = value in self.values
        yield from self.values[: self.values.index(value)] if known else self.values


@dataclass(frozen=True)
class Feature:
    """A switch that is on in ``share`` of the scenarios. Simplest is off."""

    share: float = 0.5

    def draw(self, rng: SplitMix) -> bool:
        return rng.unit() < self.share

    def smaller(self, value: bool) -> Iterator[bool]:
        if value:
            yield False


@dataclass(frozen=True)
class Many:
    """A list of ``low`` to ``high`` items, each a dict drawn from ``item``. Simplest is short.

    Every item has an ``id``, which it keeps when others are dropped: name its task after it, and a
    tape means the same in a smaller scenario.
    """

    item: Mapping[str, Knob]
    low: int
    high: int

    def draw(self, rng: SplitMix) -> list[dict[str, Any]]:
        count = self.low + rng.below(self.high - self.low + 1)
        return [
            {"id": number, **{name: knob.draw(rng) for name, knob in self.item.items()}}
            for number in range(count)
        ]

    def smaller(self, value: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        size = len(value) - self.low
        while size > 0:
            for at in range(len(value) - size, -1, -1):
                yield value[:at] + value[at + size :]
            size //= 2
        for at, item in enumerate(value):
            for name, knob in self.item.items():
                for less in knob.smaller(item[name]):
                    yield [*value[:at], {**item, name: less}, *value[at + 1 :]]


@dataclass(frozen=True)
class Perhaps:
    """A list with one item in ``share`` of the scenarios, else an empty one. Simplest is empty."""

    item: Mapping[str, Knob]
    share: float

    def draw(self, rng: SplitMix) -> list[dict[str, Any]]:
        return Many(self.item, 1, 1).draw(rng) if rng.unit() < self.share else []

    def smaller(self, value: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        yield from Many(self.item, 0, 1).smaller(value)


@dataclass(frozen=True)
class Swarm:
    """Knobs by name. ``fixed`` entries go into every scenario as they are."""

    knobs: Mapping[str, Knob]
    fixed: Mapping[str, Any]

    def draw(self, seed: int) -> Scenario:
        """The scenario of ``seed``; a knob's value does not depend on which other knobs exist."""
        drawn = {name: knob.draw(SplitMix(derive(seed, name))) for name, knob in self.knobs.items()}
        return {**self.fixed, **drawn}

    def smaller(self, scenario: Scenario) -> Iterator[Scenario]:
        """Scenarios that differ from ``scenario`` in one knob and are simpler there."""
        for name, knob in self.knobs.items():
            for value in knob.smaller(scenario[name]):
                yield {**scenario, name: value}


def size_of(value: Any) -> float:
    """How large a scenario is: its numbers, switches and list lengths, added up."""
    if isinstance(value, Mapping):
        return sum(size_of(part) for part in value.values())
    if isinstance(value, str):
        return 0
    if isinstance(value, Sequence):
        return len(value) + sum(size_of(part) for part in value)
    return abs(value) if isinstance(value, int | float) else 0
