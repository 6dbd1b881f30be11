"""What is hunted: the reference cache, with a fault or without, or a release of SGLang."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.engine.marks import MEANINGS
from harness.explore.outcome import Outcome, Runner, Scenario
from harness.explore.tape import Tape
from harness.faults import fault_named
from harness.hunt.runner import ArenaRunner
from harness.hunt.scenario import simpler
from harness.hunt.story import Story, tell
from harness.targets.sglang import marks as release
from harness.targets.sglang.environment import check_known, folder_of
from harness.targets.sglang.eras import era_of

REFERENCE = "reference"
# Marks that a hunt of the clean reference must have reached before it may call itself passed.
REQUIRED = (
    "prefix_hit",
    "demotion",
    "window_tombstoned",
    "host_eviction",
    "load_back_landed",
    "load_back_joined",
    "revived_under_lock",
    "split_with_copy_in_flight",
    "insert_blocked",
    "abort_while_loading",
    "copy_failed",
    "prefetch_landed",
    "state_prefetched",
    "companions_loaded_back",
    "companion_state_forked",
    "companion_missing_in_storage",
    "ranks_landed_apart",
    "ranks_answered_apart",
)


class Mark(NamedTuple):
    """Something that a hunt should have seen, and what it means."""

    mark: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Target:
    """All that a hunt, a replay and the shrinker need to know of what they torture."""

    name: str
    runner: Runner
    smaller: Callable[[Scenario], Iterator[Scenario]]
    tell: Callable[[Any, Scenario, Tape], tuple[Story, Outcome]]


def meanings_of(name: str) -> tuple[Mark, ...]:
    """The marks that a hunt of a target counts."""
    return tuple(Mark(*item) for item in (MEANINGS if name == REFERENCE else release.MEANINGS))


def required_of(name: str, held: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The marks without which a hunt over whole swarms, but for what is held, has not passed."""
    if name == REFERENCE:
        return REQUIRED
    era = era_of(version_in(name))
    stored = era is not None and era.storage and release.may_store(held or {})
    return (*release.REQUIRED, *(release.REQUIRED_WITH_STORAGE if stored else ()))


def check_target(name: str) -> None:
    """Raise `ValueError` or `MissingRelease` with one line unless `name` can be hunted."""
    if name != REFERENCE:
        folder_of(version_in(name))


def version_in(name: str) -> str:
    """The release of a target such as `sglang==0.5.12`."""
    kind, _, version = name.partition("==")
    if kind != "sglang":
        raise ValueError(f"no target {name!r}; there are reference and sglang==VERSION")
    if not version:
        raise ValueError("say which release: sglang==VERSION, such as sglang==0.5.12")
    check_known(version)
    return version


def target_of(name: str = REFERENCE, fault: str = "") -> Target:
    """The target; a release is imported when it is first asked for."""
    if name != REFERENCE:
        return _release(name)
    runner = ArenaRunner(fault_named(fault) if fault else None)
    return Target(name, runner, simpler, tell)


def _release(name: str) -> Target:
    from harness.targets.sglang import story
    from harness.targets.sglang.release import Release
    from harness.targets.sglang.runner import ReleaseRunner
    from harness.targets.sglang.scenario import simpler as smaller

    version = version_in(name)
    runner = ReleaseRunner(Release.of(folder_of(version), version))
    return Target(name, runner, smaller, story.tell)
