"""The replay file: one JSON document that repeats a finding exactly, and that reads well in a diff.

Invariant: ``load(save(replay)) == replay``, and a replay that repeats has the digest it names.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from harness.explore.outcome import Outcome, Runner, Scenario, Verdict
from harness.explore.tape import StrictReplay, Tape

FORMAT = 1
LINE = 92


class ReplayError(Exception):
    """A replay file that cannot be used, or a run that is not the one it names; one line."""


class FoundBy(NamedTuple):
    """Which search found it first."""

    strategy: str
    seed: int
    schedule: int


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A finding with all that its repetition needs. ``verdict`` is None for a saved passing run."""

    tool: str
    scenario: Scenario
    found_by: FoundBy
    verdict: Verdict | None
    steps: int
    digest: str
    marks: dict[str, int]
    order: list[list[Any]]
    draws: list[list[Any]]
    format: int = field(default=FORMAT)

    @property
    def tape(self) -> Tape:
        return Tape.from_json({"order": self.order, "draws": self.draws})


def replay_of(outcome: Outcome, *, scenario: Scenario, found_by: FoundBy, tool: str) -> Replay:
    """The replay of ``outcome``; ``tool`` is name and version of what made it."""
    tape = outcome.tape.to_json()
    return Replay(
        tool=tool,
        scenario=scenario,
        found_by=found_by,
        verdict=outcome.verdict,
        steps=outcome.steps,
        digest=outcome.digest,
        marks=outcome.marks.sometimes,
        order=tape["order"],
        draws=tape["draws"],
    )


def repeat(replay: Replay, runner: Runner) -> Outcome:
    """Run it again, strictly.

    Raises ``Divergence`` where the run takes another way, ``ReplayError`` if it takes the same way
    to another end.
    """
    outcome = runner.run(replay.scenario, StrictReplay(replay.tape))
    wanted = replay.verdict.kind if replay.verdict else "no violation"
    found = outcome.verdict.kind if outcome.verdict else "no violation"
    if found != wanted:
        raise ReplayError(f"the replay says {wanted}, the run ended with {found}")
    if outcome.digest != replay.digest:
        raise ReplayError(f"the replay says digest {replay.digest}, the run has {outcome.digest}")
    return outcome


def dumps(replay: Replay) -> str:
    """The document, with a line per row of the order so that two can be compared."""
    data = {"format": replay.format, **asdict(replay)}
    data["found_by"] = replay.found_by._asdict()
    data["verdict"] = replay.verdict._asdict() if replay.verdict else None
    return _pretty(data, "") + "\n"


def loads(text: str) -> Replay:
    """Read a document; ``ReplayError`` says in one line what is wrong with it."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ReplayError(f"not a replay: not JSON ({error})") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ReplayError(f"not a replay: its format must be {FORMAT}")
    names = {field.name for field in fields(Replay)}
    _same_names("replay", data, names)
    found_by, verdict = data["found_by"], data["verdict"]
    _same_names("found_by", found_by, set(FoundBy._fields))
    if verdict is not None:
        _same_names("verdict", verdict, set(Verdict._fields))
        verdict = Verdict(**verdict)
    if not isinstance(data["scenario"], dict):
        raise ReplayError("not a replay: its scenario must be an object")
    replay = Replay(**{**data, "found_by": FoundBy(**found_by), "verdict": verdict})
    try:
        tape = replay.tape
    except ValueError as error:
        raise ReplayError(f"not a replay: {error}") from None
    if len(tape.order) != replay.steps:
        raise ReplayError(f"not a replay: {replay.steps} steps, but {len(tape.order)} in its order")
    return replay


def save(replay: Replay, path: Path) -> None:
    """Write the document to ``path``."""
    path.write_text(dumps(replay), encoding="utf-8")


def load(path: Path) -> Replay:
    """Read the document at ``path``; ``ReplayError`` names the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReplayError(f"{path}: cannot be read ({error})") from None
    try:
        return loads(text)
    except ReplayError as error:
        raise ReplayError(f"{path}: {error}") from None


def _same_names(what: str, data: object, names: set[str]) -> None:
    if not isinstance(data, Mapping):
        raise ReplayError(f"not a replay: {what} must be an object")
    missing, unknown = sorted(names - set(data)), sorted(set(data) - names)
    if missing:
        raise ReplayError(f"not a replay: {what} lacks {', '.join(missing)}")
    if unknown:
        raise ReplayError(f"not a replay: {what} has unknown {', '.join(unknown)}")


def _pretty(value: object, indent: str) -> str:
    """JSON with what fits on a line on one line, except the outermost level."""
    line = json.dumps(value)
    if indent and len(line) + len(indent) <= LINE and not _is_table(value):
        return line
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        rows = [f"{deeper}{json.dumps(k)}: {_pretty(v, deeper)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(deeper + _pretty(v, deeper) for v in value) + f"\n{indent}]"
    return line


def _is_table(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(row, list | dict) for row in value)
