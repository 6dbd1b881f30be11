"""What a run is, said before it starts: the content of `run.json`.

With the manifest alone a run can be done again: command, seed, every setting expanded, the
workload's digest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.record.machine import portable
from harness.record.strict_json import plain

Clock = Literal["virtual", "wall", "adversarial"]


@dataclass(frozen=True, slots=True)
class Pool:
    """The slots of one component on one tier: `pages` of `page_bytes` each."""

    tier: str
    component: str
    pages: int
    page_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`settings` holds every setting with its value in force; `workload` at least its source and
    digest.
    """

    command: str
    clock: Clock
    seed: int
    settings: Mapping[str, object]
    workload: Mapping[str, object]
    pools: tuple[Pool, ...] = ()
    notes: tuple[str, ...] = ()
    ignored_flags: tuple[str, ...] = ()

    def page(self) -> dict[str, object]:
        """Return it as JSON values, with paths made portable."""
        return {
            "command": self.command,
            "clock": self.clock,
            "seed": self.seed,
            "workload": _portable(plain(self.workload)),
            "settings": _portable(plain(self.settings)),
            "pools": plain(self.pools),
            "notes": list(self.notes),
            "ignored_flags": list(self.ignored_flags),
        }


@dataclass(frozen=True, slots=True)
class Mark:
    """One "sometimes" mark: how often it was reached, and whether the run's profile requires it."""

    mark: str
    count: int
    required: bool = field(default=False, kw_only=True)
    meaning: str = field(default="", kw_only=True)


def _portable(value: object) -> object:
    match value:
        case str():
            return portable(value)
        case dict():
            return {key: _portable(item) for key, item in value.items()}
        case list():
            return [_portable(item) for item in value]
    return value
