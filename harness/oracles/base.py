"""What every oracle is: a watcher that knows better.

An oracle keeps its own picture of the cache from what it is told and from public state, and
compares. Invariant: it never changes the cache, and never asks the code that maintains a ledger
whether the ledger is right.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from cache.config import Component, Tier
from cache.observer import Observer
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.oracles.naive import Needs

if TYPE_CHECKING:
    from harness.oracles.holdings import Holdings
    from harness.oracles.shades import Shades

Sink = Callable[[str, str, object, object], None]  # oracle, signature, expected, seen
CREDIT = 64


class Shadows(NamedTuple):
    """The pictures that oracles share: who holds which slot, and how nodes were used."""

    holdings: "Holdings"
    shades: "Shades"


class Oracle(Observer):
    """A family of promises. Its docstring says what it promises and when it stays silent."""

    name: ClassVar[str]
    cache: UnifiedCache
    shadows: Shadows
    pending: dict["Oracle", None]

    def __init__(self, *, credit: int = CREDIT) -> None:
        self._credit_step = credit
        self._credit = 0

    def attach(
        self,
        cache: UnifiedCache,
        shadows: Shadows,
        sink: Sink,
        pending: dict["Oracle", None],
    ) -> None:
        """Before the cache's first operation. An oracle that puts itself among `pending` is asked
        to `review` when the operation is over."""
        self.cache = cache
        self.shadows = shadows
        self.report = sink
        self.pending = pending
        config = cache.config
        self.page_size = config.page_size
        self.window = config.window
        self.windowed = Component.SWA in config.components
        self.stateful = Component.MAMBA in config.components
        self.width = config.width
        self.needs = Needs(self.window, self.page_size, self.stateful)
        self.components = config.components
        self.device_full = cache.pools[Tier.DEVICE, Component.FULL]
        self.begin()

    def begin(self) -> None:
        """Set up the picture; the cache is empty."""

    def applies(self) -> bool:
        """Whether a cache of this configuration has anything to watch."""
        return True

    def review(self) -> None:
        """After an operation: look at what it changed."""

    def audited(self) -> None:
        """Between two operations: compare the whole picture."""

    def at_rest(self) -> None:
        """All requests have ended and nothing is in flight."""

    def needed_from(self, tokens: int) -> int:
        """The first position (tokens, whole pages) of the window that a prefix needs."""
        return self.needs.window_from(tokens)

    def slots(self, component: int, tokens: int) -> int:
        """Slots that a node of `tokens` tokens takes: one a page, or the one state of its end."""
        return 1 if component == Component.MAMBA else tokens // self.page_size

    def named(self, node: Node, component: int) -> list[int]:
        """The fingerprints of what a node's slots of a component should hold."""
        prints = self.cache.tree.prints(node)
        return prints[-1:] if component == Component.MAMBA else prints

    def afford(self, cost: int) -> bool:
        """Whether a scan over `cost` nodes may be made now. Credit grows with every question, so
        scans cost a bounded amount per event, and small worlds are always scanned."""
        self._credit = min(self._credit + self._credit_step, self._credit_step + 2 * cost)
        if self._credit < cost:
            return False
        self._credit -= cost
        return True


def place_name(tier: int, component: int) -> str:
    return f"{Tier(tier).name.lower()}_{Component(component).name.lower()}"
