"""Finds the traces that ship with the program, installed or in a checkout.

A build copies them from tests/data into this package, so the installed place is asked first. A path
that is returned exists.
"""

from pathlib import Path

from workloads.errors import WorkloadError

_PACKAGE = Path(__file__).resolve().parent
_PLACES = (_PACKAGE / "data", _PACKAGE.parent / "tests" / "data")


def bundled_trace(name: str, *, places: tuple[Path, ...] = _PLACES) -> Path:
    """The path of the bundled trace called `name`; WorkloadError says what to type instead."""
    for place in places:
        if (place / name).is_file():
            return place / name
    raise WorkloadError(
        f"the bundled trace {name} is not part of this installation; give a trace with --trace FILE"
    )
