"""A recording survives kill -9, Ctrl-C, an exception and a full disk."""

import csv
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.record.directory import RunDirectory
from harness.record.lines import BUFFERED_LINES
from harness.record.requests import FIELDS, parse_row
from harness.record.run import VIOLATIONS_WRITTEN, Recorder
from harness.report.page import build_report
from tests.harness.record.feed import MANIFEST, MARKS, VIOLATION, counters, feed, record, rows

ROOT = Path(__file__).parents[3]
CHILD = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests ignored it
import sys
from pathlib import Path
from harness.record.directory import RunDirectory
from harness.record.run import Recorder
from tests.harness.record.feed import MANIFEST, VIOLATION, counters, feed

directory = RunDirectory.create(Path(sys.argv[1]), "child")
with Recorder(directory, MANIFEST, monotonic=lambda: 0.0) as recorder:
    feed(recorder, number=1000, samples=40)
    recorder.violation(VIOLATION)
    print(directory.path, flush=True)
    sys.stdin.read()
"""
FULL_DISK = """
import resource, sys
from pathlib import Path
from harness.record.directory import RunDirectory
from harness.record.run import Recorder
from tests.harness.record.feed import MANIFEST, counters, feed

directory = RunDirectory.create(Path(sys.argv[1]), "full")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
with Recorder(directory, MANIFEST) as recorder:
    feed(recorder, number=2000, samples=100)
    recorded = recorder.finish(recorder.summary(counters(0)))
print(directory.path)
for lost in recorded.lost:
    print(lost.sentence())
"""


def child(script: str, tmp_path: Path) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", script, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def page(path: Path, name: str = "run.json") -> dict:
    return json.loads((path / name).read_text())


def table(path: Path) -> list:
    with (path / "requests.csv").open(newline="") as file:
        return [parse_row(cells) for cells in csv.DictReader(file)]


def test_a_finished_run_has_every_file_and_says_so(tmp_path):
    directory = record(tmp_path, number=120, samples=10, violations=2)
    found = page(directory.path)
    assert (found["status"], found["seed"], found["lost"]) == ("finished", 7, [])
    assert found["pools"][0] == {
        "tier": "device",
        "component": "full",
        "pages": 4000,
        "page_bytes": 2 << 20,
    }
    assert found["settings"]["hicache_ratio"] == 2.0
    assert page(directory.path, "summary.json")["verdict"] == "violation"
    assert len((directory.path / "violations.jsonl").read_text().splitlines()) == 2
    assert [mark["count"] for mark in json.loads((directory.path / "marks.json").read_text())] == [
        mark.count for mark in MARKS
    ]
    assert not list(directory.path.glob(".*"))


def test_the_rows_on_disk_are_the_rows_recorded(tmp_path):
    directory = record(tmp_path, number=120, samples=10)
    assert [row.request_id for row in table(directory.path)] == [
        row.request_id for row in rows(120)
    ]
    assert (directory.path / "requests.csv").read_text().splitlines()[0] == ",".join(FIELDS)


def test_summary_csv_holds_the_same_keys_and_values_as_json(tmp_path):
    directory = record(tmp_path, number=120, samples=10)
    with (directory.path / "summary.csv").open(newline="") as file:
        flat = {row["key"]: row["value"] for row in csv.DictReader(file)}
    expected = page(directory.path, "summary.json")
    assert flat == {key: str(value) for key, value in expected.items()}


def test_two_recordings_differ_in_nothing_but_the_run_page(tmp_path):
    first, second = record(tmp_path / "a"), record(tmp_path / "b")
    for file in sorted(first.path.iterdir()):
        if file.name != "run.json":
            assert file.read_bytes() == (second.path / file.name).read_bytes(), file.name


def test_kill_9_loses_only_what_was_buffered_and_the_report_can_still_be_made(tmp_path):
    process = child(CHILD, tmp_path)
    path = Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()
    assert page(path)["status"] == "running"
    kept = table(path)
    assert 1000 - BUFFERED_LINES <= len(kept) <= 1000
    assert [row.request_id for row in kept] == [row.request_id for row in rows(1000)][: len(kept)]
    assert json.loads((path / "violations.jsonl").read_text()) == VIOLATION
    html = build_report(path).read_text()
    assert "the run did not end" in html
    assert VIOLATION["signature"].split("'")[0] in html


def test_ctrl_c_writes_the_summary_of_what_ran(tmp_path):
    process = child(CHILD, tmp_path)
    path = Path(process.stdout.readline().strip())
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert "KeyboardInterrupt" in errors
    assert page(path)["status"] == "interrupted"
    assert page(path)["ended"]
    assert len(table(path)) == 1000
    summary = page(path, "summary.json")
    assert summary["completed"] > 900
    assert summary["verdict"] == "violation"


def test_an_exception_closes_the_books_as_failed_and_goes_on_up(tmp_path):
    directory = RunDirectory.create(tmp_path, "x")
    recorder = Recorder(directory, MANIFEST)

    def fail():
        with recorder:
            feed(recorder, number=30, samples=3)
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        fail()
    assert page(directory.path)["status"] == "failed"
    summary = page(directory.path, "summary.json")
    assert (summary["verdict"], summary["verdict_reason"]) == (
        "inconclusive",
        "the run failed: boom",
    )


def test_a_full_disk_loses_whole_rows_counts_them_and_ends_the_run(tmp_path):
    process = child(FULL_DISK, tmp_path)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    path = Path(output.splitlines()[0])
    assert "rows of requests.csv could not be written: file size limit reached" in output
    (lost,) = (loss for loss in page(path)["lost"] if loss["file"] == "requests.csv")
    kept = table(path)
    assert 100 < len(kept) < 2000
    assert len(kept) + lost["rows"] == 2000
    assert page(path, "summary.json")["completed"] > len(kept), "statistics miss nothing"
    assert "could not be written" in build_report(path).read_text()


def test_rows_reach_the_disk_after_a_second(tmp_path):
    now = [0.0]
    directory = RunDirectory.create(tmp_path, "x")
    with Recorder(directory, MANIFEST, monotonic=lambda: now[0]) as recorder:
        for row in rows(9):
            recorder.request(row)
        assert table(directory.path) == []
        now[0] = 1.0
        recorder.sample(1.0, {"queue_requests": 1})
        assert len(table(directory.path)) == 9
        recorder.finish(recorder.summary(counters(0)))


def test_violations_are_all_counted_and_the_first_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.record.run.VIOLATIONS_WRITTEN", 3)
    directory = record(tmp_path, number=5, samples=2, violations=7)
    assert len((directory.path / "violations.jsonl").read_text().splitlines()) == 3
    assert page(directory.path, "summary.json")["violations"] == 7
    assert VIOLATIONS_WRITTEN == 10_000


def test_a_line_end_inside_an_error_does_not_break_the_table(tmp_path):
    directory = RunDirectory.create(tmp_path, "x")
    with Recorder(directory, MANIFEST) as recorder:
        recorder.request(replace(next(rows(1)), error='two\nlines, "quoted"'))
        recorder.finish(recorder.summary())
    assert table(directory.path)[0].error == 'two lines, "quoted"'


def test_a_run_ends_once(tmp_path):
    directory = RunDirectory.create(tmp_path, "x")
    with Recorder(directory, MANIFEST) as recorder:
        recorder.finish(recorder.summary())
        with pytest.raises(AssertionError, match="ends once"):
            recorder.finish({})
