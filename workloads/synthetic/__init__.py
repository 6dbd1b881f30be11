"""Generated traffic: a few families, each a workload with documented parameters.

The same parameters and seed give the same requests on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from workloads.errors import WorkloadError
from workloads.request import Workload
from workloads.synthetic.chat import Chat
from workloads.synthetic.settings import Setting, settings_of, with_settings
from workloads.synthetic.shared_prefix import SharedPrefix
from workloads.synthetic.unique import Unique

__all__ = ["FAMILIES", "Chat", "SharedPrefix", "Unique", "build", "settings"]

FAMILIES: Mapping[str, type[Chat] | type[SharedPrefix] | type[Unique]] = {
    "chat": Chat,
    "shared_prefix": SharedPrefix,
    "unique": Unique,
}


def build(name: str, values: Mapping[str, object]) -> Workload:
    """The family `name` with `values` in place of its defaults; text is read as the default's kind.

    Raises `WorkloadError` for an unknown family, an unknown parameter or a value out of range.
    """
    workload: Workload = with_settings(name, _family(name), values)
    return workload


def settings(name: str) -> tuple[Setting, ...]:
    """The parameters of the family `name`: their names, defaults and meanings."""
    return settings_of(_family(name))


def _family(name: str) -> type[Chat] | type[SharedPrefix] | type[Unique]:
    if name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise WorkloadError(f"no workload is called {name!r}; choose one of: {known}")
    return FAMILIES[name]
