"""How a pool's bytes lie in memory."""

import enum


class Layout(enum.StrEnum):
    """What `--hicache-mem-layout` may say; see `cache.tensors`."""

    LAYER_FIRST = "layer_first"
    PAGE_FIRST = "page_first"
    PAGE_FIRST_DIRECT = "page_first_direct"
