"""What an oracle over a release is. Invariant: it looks, and never calls what changes the cache."""

from typing import ClassVar

from harness.targets.sglang.broken import Broken
from harness.targets.sglang.device import Copy
from harness.targets.sglang.storage import Page, Prints
from harness.targets.sglang.view import View
from harness.targets.sglang.world import Row, World

__all__ = ["Broken", "Oracle"]


class Oracle:
    """Told what happens; raises `Broken` where a promise does not hold."""

    name: ClassVar[str]
    sees_opaque: ClassVar[bool] = False  # whether it needs no nodes

    def __init__(self, world: World, view: View) -> None:
        self.world = world
        self.view = view

    def reads(self, row: Row) -> None:
        """The model is about to read what is cached for a request."""

    def copies(self, copy: Copy) -> None:
        """A copy between the tiers is about to run."""

    def pages(self, page: Page) -> None:
        """Storage is about to fill a host page, or to read one."""

    def kept(self, key: str, prints: Prints) -> None:
        """Storage is given this under a key."""

    def settled(self) -> None:
        """The scheduler is between two calls."""

    def at_rest(self) -> None:
        """Every request has ended and nothing is in flight."""
