"""Sliding-window attention: the trailing window of the prefix, rounded to whole pages."""

from cache.components.base import Rule, Walk
from cache.config import Component


class SwaRule(Rule):
    component = Component.SWA

    def __init__(self, window: int, page_size: int) -> None:
        assert window > 0
        self._window = window
        self._page_size = page_size

    def walk(self) -> Walk:
        return _SwaWalk(self)

    def needed_from(self, end: int) -> int:
        return max(0, end - self._window) // self._page_size * self._page_size


class _SwaWalk(Walk):
    __slots__ = ("_rule", "_since")

    def __init__(self, rule: SwaRule) -> None:
        self._rule = rule
        self._since = 0  # present on every page from here on

    def step(self, present: bool, start: int, end: int) -> bool:
        if not present:
            self._since = end
        return present and self._since <= self._rule.needed_from(end)
