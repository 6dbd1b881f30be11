"""What a prefix lacks: asked for as far as storage may have it and a node could take it."""

import pytest

from cache.config import Component, Tier, WritePolicy
from harness.explore.prng import SplitMix
from harness.oracles.naive import Needs
from harness.oracles.reachable import beyond, bits_of, longest, needed
from tests.cache.builders import a_key, land, node_at, serve
from tests.cache.storage_builders import reply, with_storage

FULL, SWA, MAMBA = Component
DEVICE, HOST = Tier


def lose(cache, node, *components):
    """From both tiers."""
    for component in components:
        for tier in Tier:
            if node.ready(tier, component):
                cache.residency.drop(node, tier, component)


def served(*paths, **settings):
    cache = with_storage(**{"full": (16, 16), **settings})
    for path in paths:
        serve(cache, a_key(path))
        land(cache)
        reply(cache)
    return cache


def asked(cache, anchor, start, limit):
    found = cache.storage.lacking.questions(anchor, start, limit)
    return [(wanted.component, wanted.page) for wanted in found]


def test_of_what_the_tree_has_nothing_is_asked_for():
    cache = served([1, 2], swa=(16, 16), window=4)
    node = node_at(cache, [1, 2])
    assert cache.storage.lacking.servable(node) == 4
    assert asked(cache, node, 4, 8) == [(FULL, 2), (FULL, 3), (SWA, 2), (SWA, 3)]


def test_a_lost_window_is_asked_for_from_where_the_next_page_needs_it():
    cache = served([1, 2, 3, 4], swa=(16, 16), window=4)
    node = node_at(cache, [1, 2, 3, 4])
    lose(cache, node, SWA)
    assert cache.storage.lacking.servable(node) == 0
    assert asked(cache, node, 0, 8) == [(SWA, 0), (SWA, 1), (SWA, 2), (SWA, 3)]
    assert asked(cache, node, 6, 8) == [(SWA, 2), (SWA, 3)]


def test_a_state_is_asked_for_wherever_storage_may_have_one():
    cache = served([1, 2, 3], mamba=(4, 4))
    node = node_at(cache, [1, 2, 3])
    lose(cache, node, MAMBA)
    assert asked(cache, node, 0, 8) == [(FULL, 3), *((MAMBA, page) for page in range(4))]
    assert asked(cache, node, 4, 6) == [(MAMBA, 2)]


def test_what_no_node_could_take_is_not_asked_for():
    cache = served([1, 2], swa=(16, 16), window=4, policy=WritePolicy.WRITE_BACK)
    node = node_at(cache, [1, 2])  # on the device alone
    lose(cache, node, SWA)
    assert asked(cache, node, 0, 4) == []
    assert asked(cache, node, 0, 6) == [(FULL, 2), (SWA, 2)]


def test_the_anchor_is_the_deepest_node_that_the_host_has():
    cache = served([1, 2], policy=WritePolicy.WRITE_THROUGH_SELECTIVE)
    serve(cache, a_key([1, 2, 3]))  # the second use of the first two, the first of the third
    land(cache)
    first, second = node_at(cache, [1, 2]), node_at(cache, [1, 2, 3])
    lacking = cache.storage.lacking
    assert lacking.anchor([first, second]) is first
    assert lacking.anchor([]) is cache.tree.root


@pytest.mark.parametrize(
    "components",
    [
        {"swa": (16, 16), "window": 4},
        {"mamba": (6, 6)},
        {"swa": (16, 16), "window": 3, "mamba": (6, 6)},
    ],
    ids=["window", "state", "both"],
)
@pytest.mark.parametrize("seed", range(40))
def test_how_far_tree_and_storage_reach_is_what_counting_page_by_page_says(seed, components):
    rng = SplitMix(seed)
    cache = served(*([1, 2, 3, 4, 5, 6][: 1 + rng.below(6)] for _ in range(3)), **components)
    needs = Needs(components.get("window", 0), 2, "mamba" in components)
    path = cache.tree.walk(a_key([1, 2, 3, 4, 5, 6]), 12)
    for node in path:
        lose(cache, node, *(c for c in cache.config.components[1:] if rng.below(2)))
    anchor, limit = path[-1], path[-1].end + 2 * rng.below(4)
    lacking, bits = cache.storage.lacking, bits_of(path, needs)
    start = lacking.servable(anchor)
    assert start == longest(bits.there, anchor.end, needs)
    missing = sorted(bits.absent | beyond(anchor, limit, needs))
    stored = {bit for bit in missing if rng.below(3)}
    end = lacking.reachable(anchor, start, limit, lambda c, page: (c, page) in stored)
    assert end == longest(bits.there | stored, limit, needs)
    wanted = {(w.component, w.page) for w in lacking.wanted(anchor, end)}
    assert wanted == needed(end, needs) - bits.there
    questions = lacking.questions(anchor, start, limit)
    assert end <= start or wanted <= {(w.component, w.page) for w in questions}
