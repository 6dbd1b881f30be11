"""The releases that can be tortured, by the interfaces that their caches share."""

from typing import NamedTuple


class Era(NamedTuple):
    """A span of releases whose cache is driven in the same way."""

    name: str
    first: str
    last: str
    about: str


ERAS = (Era("monolith", "0.5.12", "0.5.16", "one tree class, ongoing copies by node"),)


def era_of(version: str) -> Era | None:
    """The era of a release, None where no adapter knows it."""
    number = number_of(version)
    if number is None:
        return None
    for era in ERAS:
        first, last = number_of(era.first), number_of(era.last)
        assert first is not None
        assert last is not None
        if first <= number <= last:
            return era
    return None


def number_of(version: str) -> tuple[int, ...] | None:
    """A version as numbers, such as (0, 5, 12)."""
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else None


def supported() -> str:
    """For messages: the spans of the releases that adapters know."""
    spans = [e.first if e.first == e.last else f"{e.first} to {e.last}" for e in ERAS]
    return ", ".join(spans)
