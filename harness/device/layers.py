"""In which order a load-back brings the layers, and how many in one step.

Invariant: every layer of every component comes in exactly one step.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cache.config import Component
from cache.layout import Layout

Layer = tuple[Component, int]  # a layer of the model: the component that holds it, and which there
# Where layers of a token lie side by side, one alone is a short run of bytes with a long gap behind
# it. Four reach what a plain copy promises, and are still a small part of a deep model.
_AT_ONCE = {Layout.PAGE_FIRST: 4}


class LayerGroup(NamedTuple):
    """Layers of one component that come together."""

    component: Component
    layers: range


def layers_at_once(layout: Layout) -> int:
    """How many layers one step takes out of a host pool that is laid out so."""
    return _AT_ONCE.get(layout, 1)


def grouped(order: Iterable[Layer], sizes: Mapping[Component, int]) -> list[LayerGroup]:
    """The layers of the components in `sizes`, up to so many of a component in one group. A group
    comes when the first of its layers is wanted; only layers that follow each other share one."""
    groups: list[LayerGroup] = []
    last: dict[Component, int] = {}  # where in `groups` the component's latest is
    for component, layer in order:
        if component not in sizes:
            continue
        at = last.get(component)
        if at is not None:
            layers = groups[at].layers
            if layers.stop == layer and len(layers) < sizes[component]:
                groups[at] = LayerGroup(component, range(layers.start, layer + 1))
                continue
        last[component] = len(groups)
        groups.append(LayerGroup(component, range(layer, layer + 1)))
    return groups


def side_by_side(layers: Mapping[Component, int]) -> Sequence[Layer]:
    """An order for so many layers of each component, in which all begin and end together."""
    every = [(layer, n, count) for layer, count in layers.items() for n in range(count)]
    every.sort(key=lambda one: ((one[1] + 1) / one[2], one[0]))
    return tuple((component, n) for component, n, _ in every)
