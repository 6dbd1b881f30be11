"""Whether a prefill begins before the load-backs that its prefix counts on have come.

Invariant: whoever begins ahead has these acknowledged before anything of the forward is kept.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from cache.transfers import Copy
from harness.explore.kernel import FINISHED


class Overlap(StrEnum):
    """LAYER: compute begins at once and waits for a layer when it comes to it. NONE: it begins when
    whole load-backs have been acknowledged."""

    LAYER = "layer"
    NONE = "none"


class Ahead(NamedTuple):
    """The load-backs that a forward begins ahead of. `landed()` returns when each has been
    acknowledged, whether it came or failed; await it once, when the forward's time is over."""

    copies: Sequence[Copy]
    landed: Callable[[], Awaitable[None]]


OF_NOTHING = Ahead((), lambda: FINISHED)
