"""A request's page table: which slots its attention reads, and who owns them.

    pages    0 ........ shared ........ swa_from ........ len(full)
    FULL     | the tree's | the request's own                     |
    SWA      | by the map | given back | the request's own        |

[0, shared) is protected by `lock`; the own pages in the middle have left the window. With
recurrent layers it also has a state of its own, which computing changes: that of the first
`written` tokens, begun as a copy of the tree's at `shared`, and a second slot in which the state at
the last page boundary that computing has passed is kept for the tree.
"""

from dataclasses import dataclass, field

from cache.locks import Lock
from cache.transfers import Copy, CopyState


@dataclass(eq=False, slots=True)
class PageTable:
    """Opened by `Cache.settle`, changed by the cache only."""

    number: int
    holder: str
    page_size: int
    lock: Lock | None = None
    full: list[int] = field(default_factory=list)  # FULL device slots, one for each page
    shared: int = 0  # pages
    swa_from: int = 0  # pages; own pages below it have no SWA slot any more
    written: int = 0  # tokens whose KV is there
    state: int | None = None  # MAMBA device slot that it computes with; None until it has pages
    forked: bool = False  # `state` holds what it should begin with
    kept: int | None = None  # MAMBA device slot for the state at a page boundary
    kept_at: int = 0  # tokens; the boundary whose state `kept` holds, 0 for none yet
    branch: int = 0  # tokens; where the key left the tree: others will look for a state there
    waits: list[Copy] = field(default_factory=list)
    device_tokens: int = 0  # of the hit, what was ready on the device
    host_tokens: int = 0  # of the hit, what had to come from the host
    priority: int = 0
    closed: bool = False

    @property
    def hit_tokens(self) -> int:
        return self.device_tokens + self.host_tokens

    @property
    def coming(self) -> list[Copy]:
        """Those of `waits` that have not been acknowledged."""
        return [copy for copy in self.waits if copy.in_flight]

    @property
    def lost(self) -> bool:
        """Whether a copy that the prefix counted on has failed: it cannot be read, ever."""
        return any(copy.state is CopyState.FAILED for copy in self.waits)

    @property
    def capacity_tokens(self) -> int:
        return len(self.full) * self.page_size
