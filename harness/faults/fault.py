"""A fault: a named, deliberate defect put into a built cache, to prove that the harness finds it.

Invariant: a fault changes the cache that it is given and nothing else; the clean cache has no
switches for it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cache.unified import UnifiedCache

Apply = Callable[[UnifiedCache], None]


class UnknownFault(ValueError):
    """No fault has that name; the message is one line that lists close ones."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`oracles` are the names expected to catch it, the first one first; `crash` where the cache's
    own assertions may be quicker. `reference` is where it was seen, "" for a kind of our own."""

    name: str
    family: str
    summary: str
    reference: str
    story: str
    oracles: tuple[str, ...]
    apply: Apply

    @property
    def storage_share(self) -> float | None:
        """In how many of the worlds that look for it there must be storage; None: as ever."""
        return 1.0 if self.family == "storage" else None


class Family:
    """Collects the faults of one file: a decorator for functions that tamper with a cache.

    A function's name is the fault's, its docstring summary (first line) and story (the rest)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.faults: list[Fault] = []

    def fault(self, *oracles: str, reference: str = "") -> Callable[[Apply], Apply]:
        def add(apply: Apply) -> Apply:
            text = " ".join((apply.__doc__ or "").split("\n\n", 1)[0].split())
            story = " ".join((apply.__doc__ or "").split("\n\n", 1)[-1].split())
            name = apply.__name__.replace("_", "-")
            self.faults.append(Fault(name, self.name, text, reference, story, oracles, apply))
            return apply

        return add


class Tampered:
    """A method that was replaced; counts how often the defective code is reached."""

    def __init__(self, original: Callable[..., Any], replacement: Callable[..., Any]) -> None:
        self._original = original
        self._replacement = replacement
        self.calls = 0

    def __call__(self, *given: Any) -> Any:
        self.calls += 1
        return self._replacement(self._original, *given)


def patch(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    """Every call of `owner.name(...)` becomes `replacement(original, ...)`, on this object only."""
    setattr(owner, name, Tampered(getattr(owner, name), replacement))


@contextmanager
def forgotten(owner: Any, name: str) -> Iterator[None]:
    """Inside, calls of `owner.name(...)` do nothing: somebody forgot to make them."""
    original = getattr(owner, name)
    setattr(owner, name, lambda *given: None)
    try:
        yield
    finally:
        setattr(owner, name, original)


def tampered_calls(cache: UnifiedCache) -> int:
    """How often defective code of this cache was called."""
    owners: list[Any] = [cache, *vars(cache).values(), *cache.pools.values()]
    owners += cache.residency.victims.values()
    if cache.storage is not None:
        owners += [*vars(cache.storage).values(), *vars(cache.storage.backend).values()]
    return sum(
        method.calls
        for owner in owners
        for method in getattr(owner, "__dict__", {}).values()
        if isinstance(method, Tampered)
    )
