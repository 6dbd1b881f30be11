"""The settings of a synthetic family, for the record of a run and for the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from workloads.errors import WorkloadError
from workloads.synthetic.amounts import Always, LogNormal, Uniform, parse_amount


class Setting(NamedTuple):
    """One parameter of a family: its name, what it is by default, and what it means."""

    name: str
    default: Any
    help: str


def settings_of(family: type) -> tuple[Setting, ...]:
    """The parameters of `family`, in the order in which they are declared."""
    return tuple(Setting(f.name, f.default, f.metadata["help"]) for f in fields(family))


def described(workload: Any) -> dict[str, str | int | float]:
    """Every parameter of `workload` by name, distributions in the form they are written."""
    values: dict[str, str | int | float] = {"family": workload.name}
    for setting in settings_of(type(workload)):
        value = getattr(workload, setting.name)
        values[setting.name] = value if isinstance(value, int | float) else str(value)
    return values


def with_settings(name: str, family: type, values: Mapping[str, object]) -> Any:
    """`family` made with `values`, each read as what the parameter's default is."""
    defaults = {setting.name: setting.default for setting in settings_of(family)}
    unknown = next((key for key in values if key not in defaults), None)
    if unknown is not None:
        raise WorkloadError(f"{name} has no {unknown!r}; it has: {', '.join(defaults)}")
    return family(**{key: _read(key, value, defaults[key]) for key, value in values.items()})


def _read(name: str, value: object, default: object) -> object:
    """`value` as the kind of `default`; what is neither text nor a number passes as it is."""
    is_amount = isinstance(default, Always | Uniform | LogNormal)
    if isinstance(value, int | float) and is_amount:
        return Always(value)
    if not isinstance(value, str):
        return value
    try:
        if is_amount:
            return parse_amount(value)
        if isinstance(default, int | float):
            return type(default)(value)
    except WorkloadError as error:
        raise WorkloadError(f"{name}: {error}") from None
    except ValueError:
        wanted = "a whole number" if isinstance(default, int) else "a number"
        raise WorkloadError(f"{name} must be {wanted}, not {value!r}") from None
    raise WorkloadError(f"{name} cannot be given as text")
