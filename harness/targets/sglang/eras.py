"""The releases that can be tortured, and where their schedulers' loops differ.

One row a release: it was read, driven and hunted as that release, not as a neighbour of another.
"""

from typing import Any, NamedTuple


class Era(NamedTuple):
    """One release. `barrier` says where the schedule stream of the overlapped loop waits for the
    forward stream: nowhere, before it schedules, or after it launches; with `graphs` it waits for
    a decode batch's begin only (its reads of shared tables), else for its end."""

    version: str
    name: str
    about: str
    barrier: str = ""
    graphs: bool = False
    plans: bool = False  # `get_next_batch_to_run` takes and gives back the running batch
    small_host: bool = True  # a host pool may be smaller than the device's
    waits_to_copy: bool = False  # a state is copied for a request after the load-backs of its batch
    all_three: bool = (
        False  # there is a copy controller for FULL, SWA and recurrent states together
    )
    storage: bool = True  # its unified cache prefetches

    @property
    def wheel(self) -> str:
        """The version of its wheel; `-rust` behind it picks the core."""
        return self.version.partition("-")[0]

    @property
    def core(self) -> str:
        """The backend of its tree core, where it has several."""
        return self.version.partition("-")[2] or "python"


LATE: dict[str, Any] = {"barrier": "launch", "graphs": True, "plans": True, "all_three": True}
ERAS = (
    Era(
        "0.5.12",
        "monolith",
        "one tree class, ongoing copies by node",
        small_host=False,
        storage=False,
    ),
    Era("0.5.13", "monolith", "host locks", barrier="schedule", small_host=False),
    Era("0.5.15", "monolith", "copies by layer groups", barrier="schedule", graphs=True),
    Era("0.5.18", "core", "a tree core, node ids", **LATE),
    Era("0.5.20", "core", "receipts", waits_to_copy=True, **LATE),
    Era("0.5.23", "core", "its Python core", waits_to_copy=True, **LATE),
    Era("0.5.23-rust", "core", "its Rust core", waits_to_copy=True, **LATE),
)


def era_of(version: str) -> Era | None:
    """The era of a release, None where no adapter knows it."""
    return next((era for era in ERAS if era.version == version), None)


def supported() -> str:
    """For messages: the releases that adapters know."""
    return ", ".join(era.version for era in ERAS)
