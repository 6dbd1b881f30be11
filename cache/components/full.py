"""Full attention: every page of the prefix."""

from cache.components.base import Rule, Walk
from cache.config import Component


class FullRule(Rule):
    component = Component.FULL

    def walk(self) -> Walk:
        return _FullWalk()

    def needed_from(self, end: int) -> int:
        return 0


class _FullWalk(Walk):
    __slots__ = ("_whole",)

    def __init__(self) -> None:
        self._whole = True

    def step(self, present: bool, start: int, end: int) -> bool:
        self._whole = self._whole and present
        return self._whole
