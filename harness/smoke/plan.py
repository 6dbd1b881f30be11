"""The steps of a smoke run and their thresholds, from a TOML file."""

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHIPPED = Path(__file__).parent / "smoke.toml"


class PlanError(ValueError):
    """The file is no plan; the message is one line that says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A number of a step's summary: exactly `equal` (a number, or the name of another key), or at
    least `least`, of `of` where that is given."""

    key: str
    equal: float | str | None = None
    least: float | None = None
    of: str = ""

    def complaint(self, summary: Mapping[str, Any]) -> str:
        """What is wrong; "" if nothing is. What is absent is wrong, and not zero."""
        value = _number(summary, self.key)
        if value is None:
            return f"{self.key} is not there"
        if self.equal is not None:
            wanted = self.equal
            number = _number(summary, wanted) if isinstance(wanted, str) else wanted
            return "" if value == number else f"{self.key} is {value:g}, not {wanted} ({number})"
        assert self.least is not None
        whole = _number(summary, self.of) if self.of else 1.0
        if not whole:
            return f"{self.of} is not there or 0"
        share = value / whole
        named = f"{self.key} / {self.of}" if self.of else self.key
        return "" if share >= self.least else f"{named} is {share:g}, below {self.least:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of bench.py, `{url}` standing for the server that `serve` starts for it."""

    name: str
    command: tuple[str, ...]
    exits: tuple[int, ...]
    checks: tuple[Check, ...] = ()
    serve: tuple[str, ...] | None = None


def read_plan(path: Path) -> tuple[Step, ...]:
    """Raises `PlanError`."""
    try:
        page = tomllib.loads(path.read_text())
        steps = tuple(_step(entry) for entry in page["step"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PlanError(f"{path}: {type(error).__name__}: {error}") from None
    if len({step.name for step in steps}) < len(steps) or not steps:
        raise PlanError(f"{path}: every step needs a name of its own")
    return steps


def _step(entry: Mapping[str, Any]) -> Step:
    serve = entry.get("serve")
    return Step(
        name=entry["name"],
        command=tuple(shlex.split(entry["command"])),
        exits=tuple(entry["exit"]),
        checks=tuple(_check(check) for check in entry.get("checks", ())),
        serve=None if serve is None else tuple(shlex.split(serve)),
    )


def _check(entry: Mapping[str, Any]) -> Check:
    check = Check(
        key=entry["key"], equal=entry.get("is"), least=entry.get("least"), of=entry.get("of", "")
    )
    if (check.equal is None) == (check.least is None):
        raise ValueError(f"the check of {check.key} needs `is` or `least`")
    return check


def _number(summary: Mapping[str, Any], key: str) -> float | None:
    value = summary.get(key)
    return float(value) if isinstance(value, int | float) else None
