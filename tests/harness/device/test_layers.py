"""Layers come in the order in which the model wants them, a few of a component in one step."""

from itertools import pairwise

from cache.config import Component
from harness.device.layers import LayerGroup, grouped, side_by_side

FULL, SWA = Component.FULL, Component.SWA


def test_layers_of_all_components_come_side_by_side():
    order = side_by_side({FULL: 2, SWA: 4})
    assert order == ((SWA, 0), (FULL, 0), (SWA, 1), (SWA, 2), (FULL, 1), (SWA, 3))
    assert all(a != b for a, b in pairwise(order))


def test_a_group_comes_when_its_first_layer_is_wanted():
    groups = grouped(side_by_side({FULL: 2, SWA: 6}), {FULL: 4, SWA: 4})
    assert groups == [
        LayerGroup(SWA, range(4)),
        LayerGroup(FULL, range(2)),
        LayerGroup(SWA, range(4, 6)),
    ]


def test_every_component_has_a_size_of_its_own_and_without_one_it_is_left_out():
    order = [(FULL, 0), (SWA, 0), (FULL, 1), (SWA, 1)]
    assert grouped(order, {FULL: 1}) == [LayerGroup(FULL, range(n, n + 1)) for n in range(2)]


def test_layers_that_do_not_follow_each_other_come_one_by_one():
    order = [(FULL, 1), (FULL, 0), (FULL, 2)]
    groups = grouped(order, {FULL: 4})
    assert [list(group.layers) for group in groups] == [[1], [0], [2]]
