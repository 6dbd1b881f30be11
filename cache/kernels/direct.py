"""Torch's own copies: a run of bytes at a time, as the copy engine of a GPU takes them.

Between two layouts that keep blocks whole, a block is one copy; where both keep pages whole and all
layers are asked for, a page is; towards or from page_first a block is copied token by token.
"""

from typing import TYPE_CHECKING

from cache.layout import Layout

if TYPE_CHECKING:
    from cache.tensors import TensorStore


class Direct:
    """A `Mover` for any two devices. Needs nothing but torch."""

    def move(
        self,
        target: "TensorStore",
        to: list[int],
        source: "TensorStore",
        of: list[int],
        layers: range,
    ) -> None:
        kinds = {target.layout, source.layout}
        if (
            len(kinds) == 1
            and Layout.LAYER_FIRST not in kinds
            and len(layers) == target.shape.layers
        ):
            for here, there in zip(to, of, strict=True):
                target.bytes[here].copy_(source.bytes[there], non_blocking=True)
        elif Layout.PAGE_FIRST in kinds:
            _by_token(target, to, source, of, layers)
        else:
            mine, theirs = target.blocks(), source.blocks()
            for layer in layers:
                into, out_of = mine[layer], theirs[layer]
                for here, there in zip(to, of, strict=True):
                    into[here].copy_(out_of[there], non_blocking=True)


DIRECT = Direct()


def _by_token(
    target: "TensorStore", to: list[int], source: "TensorStore", of: list[int], layers: range
) -> None:
    """A page at a time, all its layers together: they lie side by side."""
    some = slice(layers.start, layers.stop)
    pairs = (
        (target.words()[some], source.words()[some]),
        (target.trailers()[some], source.trailers()[some]),
    )
    for here, there in zip(to, of, strict=True):
        for mine, theirs in pairs:
            mine[:, here].copy_(theirs[:, there], non_blocking=True)
