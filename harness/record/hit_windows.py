"""What was asked and what was hit, by windows of time, in bounded memory for a run of any length.

When there are more windows than fit, neighbours are joined and every window is twice as wide: sums
stay exact.
"""

from typing import NamedTuple

CAPACITY = 512
FIRST_WIDTH_S = 0.125


class HitWindow(NamedTuple):
    """Sums over requests that ended within `width_s` from `start_s` on. Tokens."""

    start_s: float
    width_s: float
    requests: int
    prompt: int
    cached: int
    ideal: int


class HitWindows:
    """Add requests in any order; `windows` gives those with at least one, in order of time."""

    def __init__(self) -> None:
        self._width_s = FIRST_WIDTH_S
        self._sums: dict[int, tuple[int, int, int, int]] = {}

    def add(self, end_s: float, *, prompt: int, cached: int, ideal: int) -> None:
        """Count one completed request."""
        place = int(max(end_s, 0.0) / self._width_s)
        while place >= CAPACITY:
            self._widen()
            place = int(max(end_s, 0.0) / self._width_s)
        self._join(self._sums, place, (1, prompt, cached, ideal))

    def windows(self) -> list[HitWindow]:
        return [
            HitWindow(place * self._width_s, self._width_s, *self._sums[place])
            for place in sorted(self._sums)
        ]

    def _widen(self) -> None:
        self._width_s *= 2
        joined: dict[int, tuple[int, int, int, int]] = {}
        for place, sums in self._sums.items():
            self._join(joined, place // 2, sums)
        self._sums = joined

    @staticmethod
    def _join(
        table: dict[int, tuple[int, int, int, int]], place: int, sums: tuple[int, int, int, int]
    ) -> None:
        a, b, c, d = table.get(place, (0, 0, 0, 0))
        table[place] = (a + sums[0], b + sums[1], c + sums[2], d + sums[3])
