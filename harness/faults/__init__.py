"""The seeded defects, by family; each a few lines applied to a built cache."""

from collections.abc import Mapping
from difflib import get_close_matches

from harness.faults import (
    canary,
    closure,
    companions,
    completeness,
    copies,
    loadback,
    locks,
    ownership,
    progress,
    ranked_room,
    ranked_storage,
    ranks,
    revivals,
    states,
    storage,
    stored_states,
)
from harness.faults.fault import Fault, UnknownFault, tampered_calls

__all__ = ["FAULTS", "Fault", "UnknownFault", "fault_named", "tampered_calls"]

_FAMILIES = (
    locks,
    loadback,
    copies,
    ownership,
    closure,
    completeness,
    progress,
    states,
    companions,
    storage,
    stored_states,
    revivals,
    ranks,
    ranked_room,
    ranked_storage,
    canary,
)

FAULTS: Mapping[str, Fault] = {
    fault.name: fault for module in _FAMILIES for fault in module.family.faults
}


def fault_named(name: str) -> Fault:
    """The fault of that name; `UnknownFault` lists close ones."""
    if name in FAULTS:
        return FAULTS[name]
    close = get_close_matches(name, FAULTS, n=3, cutoff=0.4) or list(FAULTS)[:3]
    raise UnknownFault(
        f"no fault {name!r}: try {', '.join(close)}, or list them with bench.py faults"
    )
