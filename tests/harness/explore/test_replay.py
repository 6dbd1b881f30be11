"""Replay files: there and back, readable, strict."""

import json
from pathlib import Path

import pytest

from harness.explore.replay import (
    FoundBy,
    Replay,
    ReplayError,
    dumps,
    load,
    loads,
    repeat,
    replay_of,
    save,
)
from harness.explore.tape import Divergence, LenientReplay, Tape
from tests.harness.explore.models import Flaky, LostUpdate

SCENARIO = {"tasks": 2, "idle": 0}
FOUND_BY = FoundBy("urw", 7, 41)


def lost_update() -> Replay:
    outcome = LostUpdate().run(SCENARIO, LenientReplay(Tape(["T0", "T1", "T1", "T0"])))
    assert outcome.verdict is not None
    return replay_of(outcome, scenario=SCENARIO, found_by=FOUND_BY, tool="kvtorture 0.1.0")


def test_a_replay_survives_its_file_and_repeats(tmp_path: Path) -> None:
    replay = lost_update()
    save(replay, tmp_path / "lost.json")
    again = load(tmp_path / "lost.json")
    assert again == replay
    assert repeat(again, LostUpdate()).digest == replay.digest


def test_the_document_reads_row_by_row() -> None:
    text = dumps(lost_update())
    assert json.loads(text)["format"] == 1
    for line in (
        '  "found_by": {"strategy": "urw", "seed": 7, "schedule": 41},',
        '    ["T0", 1],',
        '    ["T1", 2],',
        '  "draws": []',
    ):
        assert line in text.splitlines()


def test_draws_are_part_of_the_document() -> None:
    scenario = {"copies": 1, "careful": True}
    outcome = Flaky().run(scenario, LenientReplay(Tape([], [("copy.fail", 2, 3)])))
    replay = replay_of(outcome, scenario=scenario, found_by=FOUND_BY, tool="t")
    assert replay.draws == [["copy.fail", 2, 3, 1], ["copy.fail", 0, 3, 1]]
    assert replay.verdict is None
    assert replay.marks == {"copy failed": 1}
    assert repeat(loads(dumps(replay)), Flaky()).digest == replay.digest


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": 2}, "its format must be 1"),
        ({"verdict": {"oracle": "x"}}, "verdict lacks message, signature"),
        ({"found_by": 3}, "found_by must be an object"),
        ({"extra": 1}, "replay has unknown extra"),
        ({"scenario": []}, "its scenario must be an object"),
        ({"order": [["T0", -1]]}, "not a tape"),
        ({"steps": 9}, "9 steps, but 4 in its order"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(
    tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**json.loads(dumps(lost_update())), **change}))
    with pytest.raises(ReplayError) as caught:
        load(path)
    assert problem in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_what_is_not_json_or_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="cannot be read"):
        load(tmp_path / "none.json")
    with pytest.raises(ReplayError, match="not JSON"):
        loads("{")
    with pytest.raises(ReplayError, match="its format"):
        loads("[]")


def test_a_replay_on_another_world_fails_loudly() -> None:
    replay = lost_update()
    fields = {**vars(replay), "scenario": {"tasks": 3}}
    with pytest.raises(Divergence, match="at step 5: expected the end, possible were"):
        repeat(Replay(**fields), LostUpdate())
    fields = {**vars(replay), "verdict": None}
    with pytest.raises(ReplayError, match="says no violation, the run ended with count"):
        repeat(Replay(**fields), LostUpdate())
    fields = {**vars(replay), "digest": "0" * 16}
    with pytest.raises(ReplayError, match="says digest 0000000000000000"):
        repeat(Replay(**fields), LostUpdate())
