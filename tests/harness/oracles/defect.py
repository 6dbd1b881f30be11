"""Seeded defects: a few lines each, put into a built cache, of the kinds that caches break by.

Each names the oracles of which one must speak first; `crash` where an assertion may be quicker.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from cache.unified import UnifiedCache


class Defect(NamedTuple):
    name: str
    tamper: Callable[[UnifiedCache], None]
    caught_by: tuple[str, ...]


def catalogue() -> tuple[list[Defect], Callable[..., Any]]:
    """A list of defects and the decorator that adds to it."""
    defects: list[Defect] = []

    def defect(*caught_by: str) -> Callable[[Callable[[UnifiedCache], None]], Any]:
        def add(tamper: Callable[[UnifiedCache], None]) -> Callable[[UnifiedCache], None]:
            defects.append(Defect(tamper.__name__, tamper, caught_by))
            return tamper

        return add

    return defects, defect
