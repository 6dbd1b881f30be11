"""A fault: a named, deliberate defect put into a built cache, to prove that the harness finds it.

Invariant: a fault changes the cache that it is given and nothing else; the clean cache has no
switches for it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

from cache.ranks import RankedCache
from cache.unified import UnifiedCache

Apply = Callable[[UnifiedCache], None]
Between = Callable[[RankedCache], None]


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
    needs: tuple[str, ...] = ()  # what every world that looks for it must have
    between: Between | None = None  # for what lies between ranks; `apply` then does nothing

    @property
    def shares(self) -> dict[str, float]:
        """How many of the worlds that look for it must have what it needs, for `swarm`."""
        needed = {f"{what}_share": 1.0 for what in self.needs}
        if self.between is not None:
            return {"storage_share": 0.0, "ranks_share": 1.0, **needed}
        return needed

    def put_into(self, cache: UnifiedCache | RankedCache) -> None:
        """Into a built cache: every rank runs the same defective code, but where the defect lies
        between them."""
        if isinstance(cache, RankedCache) and self.between is not None:
            self.between(cache)
        else:
            for rank in cache.ranks:
                self.apply(rank)


class Family:
    """Collects the faults of one file: a decorator for functions that tamper with a cache.

    A function's name is the fault's, its docstring summary (first line) and story (the rest).
    `needs` is what all of them need a world to have: storage, companions, rooms that are refused.
    """

    def __init__(self, name: str, *needs: str) -> None:
        self.name = name
        self.needs = needs
        self.faults: list[Fault] = []

    def between(
        self, *oracles: str, reference: str = "", needs: tuple[str, ...] = ()
    ) -> Callable[[Between], Between]:
        """For defects between ranks, which a cache for one rank cannot have."""

        def add(between: Between) -> Between:
            self.fault(*oracles, reference=reference, needs=needs)(_nothing(between))
            self.faults[-1] = replace(self.faults[-1], between=between)
            return between

        return add

    def fault(
        self, *oracles: str, reference: str = "", needs: tuple[str, ...] = ()
    ) -> Callable[[Apply], Apply]:
        """`needs` comes on top of the family's."""
        wanted = (*self.needs, *needs)

        def add(apply: Apply) -> Apply:
            text = " ".join((apply.__doc__ or "").split("\n\n", 1)[0].split())
            story = " ".join((apply.__doc__ or "").split("\n\n", 1)[-1].split())
            name = apply.__name__.replace("_", "-")
            self.faults.append(
                Fault(name, self.name, text, reference, story, oracles, apply, wanted)
            )
            return apply

        return add


def _nothing(between: Between) -> Apply:
    """Leaves a cache as it is, under the name and with the words of `between`."""

    @wraps(between)
    def apply(cache: UnifiedCache) -> None: ...

    return apply


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


def tampered_calls(cache: UnifiedCache | RankedCache) -> int:
    """How often defective code of this cache was called."""
    if isinstance(cache, RankedCache):
        between = sum(_calls([cache, *vars(cache).values()]))
        return between + sum(tampered_calls(rank) for rank in cache.ranks)
    owners: list[Any] = [cache, *vars(cache).values()]
    for pool in cache.pools.values():
        owners += [pool, pool.store, *pool.companions]
    owners += cache.residency.victims.values()
    if cache.storage is not None:
        owners += [*vars(cache.storage).values(), *vars(cache.storage.backend).values()]
    return sum(_calls(owners))


def _calls(owners: list[Any]) -> Iterator[int]:
    for owner in owners:
        for method in getattr(owner, "__dict__", {}).values():
            if isinstance(method, Tampered):
                yield method.calls
