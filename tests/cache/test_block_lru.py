"""With FULL pages on the device alone the tree is a block LRU, to the page.

The rule: match the longest cached prefix, touch and insert the request's blocks leaf first (so that
the root is the most recent), then evict the least recently used blocks down to the capacity.
"""

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.config import Component, Tier
from cache.unified import UnifiedCache
from tests.cache.brute import resident_pages
from tests.cache.builders import a_cache, a_key, admit, compute

Text = list[int]
Prefix = tuple[int, ...]


class Outcome(NamedTuple):
    hits: int
    evicted: list[Prefix]


class BlockLru:
    """The rule, in an OrderedDict with the least recent block first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.blocks: OrderedDict[Prefix, None] = OrderedDict()

    def serve(self, text: Text) -> Outcome:
        prefixes = [tuple(text[: page + 1]) for page in range(len(text))]
        hits = 0
        while hits < len(text) and prefixes[hits] in self.blocks:
            hits += 1
        for prefix in reversed(prefixes):
            self.blocks[prefix] = None
            self.blocks.move_to_end(prefix)
        evicted = []
        while len(self.blocks) > self.capacity:
            evicted.append(self.blocks.popitem(last=False)[0])
        return Outcome(hits, evicted)


def blocks_of(cache: UnifiedCache) -> set[Prefix]:
    size = cache.config.page_size * 4
    return {
        tuple(int.from_bytes(name[at : at + 4], "little") for at in range(0, len(name), size))
        for _, name in resident_pages(cache)
    }


def serve(cache: UnifiedCache, text: Text) -> Outcome:
    key, page = a_key(text, cache.config.page_size), cache.config.page_size
    before = blocks_of(cache)
    table = admit(cache, key)
    hits = table.shared
    compute(cache, table, key, len(text) * page)
    cache.finish(table, key)
    return Outcome(hits, sorted(before - blocks_of(cache)))


def agree(texts: list[Text], capacity: int, page: int = 2) -> None:
    cache, model = a_cache(page=page, full=(capacity, 0)), BlockLru(capacity)
    for number, text in enumerate(texts):
        expected = model.serve(text)
        seen = serve(cache, text)
        assert seen == Outcome(expected.hits, sorted(expected.evicted)), f"request {number}"
        assert blocks_of(cache) == set(model.blocks), f"request {number}"
        assert cache.pool(Component.FULL, Tier.DEVICE).used_slots == len(model.blocks)


TEXTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=12)


@given(TEXTS, st.integers(0, 8), st.sampled_from([2, 3]))
def test_random_texts_hit_and_evict_what_the_rule_says(texts, spare, page):
    agree(texts, max(map(len, texts)) + spare, page)


ADVERSARIAL: dict[str, list[Text]] = {
    "a loop one text too large": [[t, t, t] for t in (1, 2, 3, 4)] * 4,
    "a long prefix with tails": [[1, 1, 1, 1, tail] for tail in (1, 2, 1, 3, 2, 4, 1, 5)],
    "prefixes of one text, growing and shrinking": [
        [1, 2, 3, 4, 5, 6][:stop] for stop in (1, 3, 6, 2, 5, 1, 4, 6, 6, 1)
    ],
    "a comb: every tooth splits the same edge": [
        [0] * teeth + [1] for teeth in (5, 4, 3, 2, 1, 0, 5, 3, 1, 4)
    ],
    "a root that stays hot while its leaves turn over": [
        text for leaf in range(1, 9) for text in ([7, 7, leaf], [7])
    ],
    "scans between two uses of one text": [
        text for scan in range(5) for text in ([9, 9], *[[scan, s] for s in range(3)])
    ],
    "the same text again and again": [[1, 2, 3]] * 4 + [[3, 2, 1]] * 4 + [[1, 2, 3]],
}


@pytest.mark.parametrize("texts", ADVERSARIAL.values(), ids=ADVERSARIAL.keys())
def test_adversarial_texts_hit_and_evict_what_the_rule_says_at_every_capacity(texts):
    blocks = {tuple(text[: page + 1]) for text in texts for page in range(len(text))}
    for capacity in range(max(map(len, texts)), len(blocks) + 2):
        agree(texts, capacity)


@pytest.mark.parametrize("capacity", [12, 13, 20, 40, 80])
def test_a_long_run_of_related_texts_hits_and_evicts_what_the_rule_says(capacity):
    chance = np.random.Generator(np.random.PCG64(capacity))
    texts = [
        [int(i) for i in chance.zipf(1.5, size=chance.integers(1, 13)).clip(max=4)]
        for _ in range(250)
    ]
    agree(texts, capacity, page=1)
