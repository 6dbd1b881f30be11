"""Recurrent layers: one state, which is that of the whole prefix and meaningful only at its end.

Invariant: a node has a state for its own end or none; a prefix that ends inside a node has none.
"""

from cache.components.base import Rule, Walk
from cache.config import Component


class MambaRule(Rule):
    component = Component.MAMBA

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size

    def walk(self) -> Walk:
        return _MambaWalk()

    def needed_from(self, end: int) -> int:
        """The last page: of the nodes above `end` only the one that ends there lies beyond."""
        return max(0, end - self._page_size)


class _MambaWalk(Walk):
    __slots__ = ()

    def step(self, present: bool, start: int, end: int) -> bool:
        return present
