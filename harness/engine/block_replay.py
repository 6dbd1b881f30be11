"""Replay of a trace's ids as whole pages: the cache alone, one prompt at a time.

The rule, whose numbers are published for public traces: match the longest cached prefix, touch and
insert the prompt's pages leaf first (so that the root is the most recent), then evict the least
recently used pages down to the capacity. Making room before the insert evicts the same pages, since
the matched prefix is locked and the new pages are the most recent.

Invariant: after every prompt the device holds at most its capacity, and nothing is locked.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from cache.config import Component
from cache.contract import Cache
from cache.keys import Key
from harness.engine.job import token_bytes

QUERY = token_bytes(np.full(1, -1, np.int32))  # the token that every prompt still has to compute


class BlockReplay(NamedTuple):
    """Totals, in pages."""

    prompts: int
    pages: int
    hit_pages: int
    evicted_pages: int

    @property
    def prefix_block_hit_rate(self) -> float:
        return self.hit_pages / self.pages if self.pages else 0.0


def replay_blocks(
    cache: Cache,
    rows: Iterable[tuple[int, ...]],
    *,
    on_prompt: Callable[[BlockReplay], None] | None = None,
) -> BlockReplay:
    """Replay rows of ids through a cache of FULL pages on the device only."""
    assert cache.config.components == (Component.FULL,)
    assert not cache.config.hierarchical
    total = BlockReplay(0, 0, 0, 0)
    for ids in rows:
        total = _replay_prompt(cache, ids, total)
        if on_prompt is not None:
            on_prompt(total)
    return total


def _replay_prompt(cache: Cache, ids: tuple[int, ...], total: BlockReplay) -> BlockReplay:
    page_size, pool = cache.config.page_size, cache.pool(Component.FULL, 0)
    key = Key(pages_of_ids(ids, page_size) + QUERY, page_size)
    match = cache.match(key)
    admission = cache.lock(match, "prompt.admission")
    assert admission is not None
    table = cache.settle(match, admission, "prompt")
    cache.unlock(admission)
    hit = table.shared
    # A prompt longer than the pool passes through: by the rule its tail goes in and out at once.
    kept = min(len(ids), pool.capacity)
    free = pool.free_slots
    room = cache.extend(table, kept * page_size)
    assert room.enough, room
    evicted = pool.free_slots + (kept - hit) - free
    if kept > hit:
        cache.write(table, key.prints(kept), kept * page_size)
    cache.finish(table, key)
    passed_through = len(ids) - kept
    return BlockReplay(
        total.prompts + 1,
        total.pages + len(ids),
        total.hit_pages + hit,
        total.evicted_pages + evicted + passed_through,
    )


def pages_of_ids(ids: tuple[int, ...], page_size: int) -> bytes:
    """One page for each id: the id in its first two tokens (or its only one), zeros behind."""
    numbers = np.asarray(ids, np.int64)
    tokens = np.zeros((len(ids), max(page_size, 1)), np.int32)
    tokens[:, 0] = numbers & 0x7FFFFFFF
    if page_size > 1:
        tokens[:, 1] = numbers >> 31
    return token_bytes(tokens.reshape(-1))
