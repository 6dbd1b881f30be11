"""How tests put a defect into a built cache."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cache.pools import SlotPool


def patch(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    """Every call of `owner.name(...)` becomes `replacement(original, ...)`."""
    original = getattr(owner, name)
    setattr(owner, name, lambda *args: replacement(original, *args))


@contextmanager
def unchecked(pool: SlotPool) -> Iterator[None]:
    """The pool's own checks are off, as in a cache that has none."""
    pool._require = lambda *args: None
    try:
        yield
    finally:
        del pool._require
