"""A signal that is not lost on whoever is about to wait for it.

A plain signal wakes who waits now. A scheduler that looks around, does something during which
others run, and only then waits would sleep through what happened in between; so a bell remembers.
Invariant: after a ring nobody waits until the bell has been cleared.
"""

from collections.abc import Awaitable

from harness.explore.kernel import FINISHED, Kernel, Signal


class Bell(Signal):
    __slots__ = ("rung",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.rung = False

    def fire(self) -> None:
        self.rung = True
        super().fire()

    def clear(self) -> None:
        """Call it before looking around, never after."""
        self.rung = False

    def heard(self, kernel: Kernel, point: str) -> Awaitable[None]:
        """Wait for a ring; at once if there has been one since the bell was cleared."""
        return FINISHED if self.rung else kernel.wait(self, point)
