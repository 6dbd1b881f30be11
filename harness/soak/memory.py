"""How Python's memory is looked after during a long run."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def rare_collections() -> Iterator[None]:
    """A long run makes few cycles and many objects that stay: looking for cycles all the time costs
    a twentieth of it."""
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
