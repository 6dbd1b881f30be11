"""Who moves the bytes between two stores: torch's own copies, or a kernel that gathers them."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from cache.tensors import TensorStore


class Mover(Protocol):
    """Moves pages between two stores of one page shape, whatever their layouts."""

    def move(
        self,
        target: "TensorStore",
        to: list[int],
        source: "TensorStore",
        of: list[int],
        layers: range,
    ) -> None:
        """Copy these layers of pages `of` of `source` into slots `to` of `target`: K, V and
        trailers. Launched on the current CUDA stream where a store is on a GPU; else done on
        return. Pages of one call are distinct on either side."""
        ...
