"""The contract of a component: which pages a prefix needs, and therefore what a lock covers.

Invariant: `Walk.step` accepts a prefix exactly when the component is there on every page from
`needed_from(prefix)` on, so validity, locking and load-back agree by construction.
"""

from abc import ABC, abstractmethod

from cache.config import Component


class Walk(ABC):
    """Validity along one path, top down. The same walk serves "on the device" and "on some tier":
    only the meaning of `present` differs."""

    @abstractmethod
    def step(self, present: bool, start: int, end: int) -> bool:
        """Append a node [start, end); whether the prefix of `end` tokens is valid."""


class Rule(ABC):
    component: Component

    @abstractmethod
    def walk(self) -> Walk:
        """A fresh walk from the root."""

    @abstractmethod
    def needed_from(self, end: int) -> int:
        """The position (tokens, whole pages) from which a prefix of `end` tokens needs it."""


Rules = dict[Component, Rule]
