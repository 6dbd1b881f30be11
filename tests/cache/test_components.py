"""Components: what a rule says of nodes equals what its definition says of pages."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cache.components import FullRule, MambaRule, Rule, SwaRule
from cache.config import Component, Tier
from cache.contract import Demand
from tests.cache.builders import a_cache, a_key, demote, land, node_at, serve

EDGES = st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=6)


def _valid_ends(rule: Rule, edges: list[tuple[int, bool]], page: int) -> list[int]:
    walk, end, valid = rule.walk(), 0, []
    for pages, present in edges:
        start, end = end, end + pages * page
        if walk.step(present, start, end):
            valid.append(end)
    return valid


def _ends(edges: list[tuple[int, bool]]) -> list[int]:
    return [sum(pages for pages, _ in edges[: i + 1]) for i in range(len(edges))]


def _presence(edges: list[tuple[int, bool]]) -> list[bool]:
    return [present for pages, present in edges for _ in range(pages)]


@given(EDGES, st.integers(1, 4), st.integers(1, 20))
def test_a_window_is_valid_where_every_token_that_it_touches_lies_on_a_present_page(
    edges, page, window
):
    presence = _presence(edges)
    expected = [
        end * page
        for end in _ends(edges)
        if all(presence[token // page] for token in range(max(0, end * page - window), end * page))
    ]
    assert _valid_ends(SwaRule(window, page), edges, page) == expected


@given(EDGES, st.integers(1, 4))
def test_full_attention_is_valid_up_to_the_first_page_that_is_missing(edges, page):
    presence = _presence(edges)
    expected = [end * page for end in _ends(edges) if all(presence[:end])]
    assert _valid_ends(FullRule(), edges, page) == expected


@given(EDGES, st.integers(1, 4))
def test_a_state_is_valid_at_the_ends_where_it_is_present_and_needs_no_other(edges, page):
    ends = [end * page for end, (_, present) in zip(_ends(edges), edges, strict=True) if present]
    assert _valid_ends(MambaRule(page), edges, page) == ends
    starts = [0, *(end * page for end in _ends(edges))]
    for start, end in pairwise(starts):
        assert start <= MambaRule(page).needed_from(end) < end


def test_a_window_on_the_host_alone_is_loadable_and_no_device_hit():
    """The two questions share a walk, not an answer."""
    cache = a_cache(full=(8, 8), swa=(4, 4), window=2)
    serve(cache, a_key([1, 2]))
    land(cache)
    cache.make_room(Demand(0, 4))
    assert node_at(cache, [1, 2]).ready(Tier.DEVICE, Component.FULL)
    match = cache.match(a_key([1, 2]))
    assert (match.device_tokens, match.loadable_tokens) == (0, 4)


def test_a_hole_that_the_window_has_left_behind_is_no_obstacle():
    cache = a_cache(full=(8, 8), swa=(4, 4), window=2)
    serve(cache, a_key([1]))
    serve(cache, a_key([1, 2]))
    land(cache)
    demote(cache)
    hole = node_at(cache, [1])
    cache.residency.drop(hole, Tier.HOST, Component.SWA)
    assert cache.match(a_key([1, 2])).loadable_tokens == 4
    assert cache.match(a_key([1])).loadable_tokens == 0
