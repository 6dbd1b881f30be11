"""A request's page table: which slots its attention reads, and who owns them.

    pages    0 ........ shared ........ swa_from ........ len(full)
    FULL     | the tree's | the request's own                     |
    SWA      | by the map | given back | the request's own        |

[0, shared) is protected by `lock`; the own pages in the middle have left the window.
"""

from dataclasses import dataclass, field

from cache.locks import Lock
from cache.transfers import Copy


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
    waits: list[Copy] = field(default_factory=list)
    device_tokens: int = 0  # of the hit, what was ready on the device
    host_tokens: int = 0  # of the hit, what had to come from the host
    priority: int = 0
    closed: bool = False

    @property
    def hit_tokens(self) -> int:
        return self.device_tokens + self.host_tokens

    @property
    def capacity_tokens(self) -> int:
        return len(self.full) * self.page_size
