"""A run directory is there and writable, or nothing is."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from harness.record.directory import LostOutput, RunDirectory, UsageError

NOON = datetime(2026, 1, 2, 12, 0, 5)


def test_the_name_is_time_and_tag_and_run_json_comes_first(tmp_path):
    directory = RunDirectory.create(tmp_path / "results", "night", now=NOON)
    assert directory.path == tmp_path / "results" / "20260102-120005-night"
    assert [file.name for file in directory.path.iterdir()] == ["run.json"]
    assert json.loads((directory.path / "run.json").read_text())["status"] == "running"


def test_a_name_that_is_taken_gets_a_number(tmp_path):
    names = [RunDirectory.create(tmp_path, "a", now=NOON).path.name for _ in range(3)]
    assert names == ["20260102-120005-a", "20260102-120005-a-2", "20260102-120005-a-3"]


@pytest.mark.parametrize("tag", ["", "a/b", "..", "a b", "-x", "a\n"])
def test_a_tag_that_is_no_file_name_is_refused_in_one_line(tmp_path, tag):
    with pytest.raises(UsageError, match="--tag") as caught:
        RunDirectory.create(tmp_path, tag)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_output_directory_that_cannot_be_made_is_a_usage_error(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("not a directory")
    for output_dir in (blocker, blocker / "deeper"):
        with pytest.raises(UsageError, match="--output-dir results") as caught:
            RunDirectory.create(output_dir, "x")
        assert "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_run_that_cannot_write_its_first_file_leaves_nothing_behind(tmp_path, monkeypatch):
    lost = LostOutput("run.json", 0, "no space left on device")
    monkeypatch.setattr(RunDirectory, "write", lambda *_: lost)
    with pytest.raises(UsageError, match="no space left"):
        RunDirectory.create(tmp_path / "a" / "b", "x")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_replaced_keeps_its_old_content(tmp_path, monkeypatch):
    directory = RunDirectory.create(tmp_path, "x")
    assert directory.write("summary.json", "old") is None

    def full(_path, _data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    lost = directory.write("summary.json", "new")
    assert lost == LostOutput("summary.json", 0, "no space left on device")
    assert lost.sentence() == "summary.json could not be written: no space left on device"
    assert (directory.path / "summary.json").read_text() == "old"
    assert not list(directory.path.glob(".*"))


def test_a_run_that_never_began_can_be_discarded_but_a_recorded_one_stays(tmp_path):
    unused, used = (RunDirectory.create(tmp_path, "x") for _ in range(2))
    used.write("requests.csv", "row")
    unused.discard()
    used.discard()
    assert not unused.path.exists()
    assert used.path.exists()


def test_only_a_run_directory_can_be_opened(tmp_path):
    with pytest.raises(UsageError, match=r"no run\.json"):
        RunDirectory.open(tmp_path)
