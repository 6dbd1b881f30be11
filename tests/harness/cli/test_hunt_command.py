"""`hunt`, `replay` and `faults` from the outside."""

import json
import signal
from pathlib import Path

import pytest

from harness.faults import FAULTS
from tests.harness.cli.test_soak_command import begun, bench
from tests.harness.record.test_output_doc import table

MICRO = "tests/scenarios/micro/write_back_eviction.toml"


def test_a_fault_is_found_saved_and_replayed_exactly(tmp_path: Path) -> None:
    words = ("--fault", "failed-copy-marked-done", "--budget", "60s", "--jobs", "1")
    done = bench("hunt", "--output-dir", str(tmp_path), *words)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "VIOLATION" in done.stdout
    (run,) = tmp_path.iterdir()
    (finding, *_) = (run / "findings").iterdir()
    summary = json.loads((run / "summary.json").read_text())
    assert summary["verdict"] == "violation"
    assert all(one["stable"] for one in summary["findings"])
    again = bench("replay", str(finding))
    assert again.returncode == 3, again.stdout + again.stderr
    assert "VIOLATION" in again.stdout


def test_a_replay_that_takes_another_way_is_loud(tmp_path: Path) -> None:
    story = next((Path(__file__).resolve().parents[2] / "repros").glob("canary.*.json"))
    page = json.loads(story.read_text())
    page["digest"] = "0" * 16
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(page))
    done = bench("replay", str(forged))
    assert done.returncode == 6
    assert "DIVERGED" in done.stderr


def test_a_short_hunt_of_the_clean_cache_finds_nothing(tmp_path: Path) -> None:
    done = bench("hunt", "--budget", "5s", "--jobs", "1", "--json", "--output-dir", str(tmp_path))
    assert done.returncode in (0, 5), done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["findings"] == []
    assert summary["unrepeatable"] == 0
    assert summary["schedules"] > 0
    assert (done.returncode == 5) == bool(summary["missing_marks"])


def test_an_exhaustive_search_says_that_it_is_complete() -> None:
    done = bench("hunt", "--exhaustive", "--scenario", MICRO)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("complete: ")


def test_a_sweep_says_that_it_is_complete(tmp_path: Path) -> None:
    words = ("--sweep", "all", "--scenario", MICRO, "--jobs", "1", "--output-dir", str(tmp_path))
    done = bench("hunt", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("complete: ")


@pytest.mark.parametrize("words", [("--sweep", "copies"), ("--keep-going",)])
def test_ctrl_c_keeps_what_was_swept_or_hunted_so_far(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    flags = ("--budget", "10m", "--jobs", "2", "--output-dir", str(tmp_path))
    with begun("hunt", *flags, *words) as process:
        assert process.stderr is not None
        process.stderr.readline()  # its first line of progress
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate()
    assert process.returncode == 130, output
    (run,) = tmp_path.iterdir()
    assert json.loads((run / "run.json").read_text())["status"] == "interrupted"
    summary = json.loads((run / "summary.json").read_text())
    assert summary["points" if words[0] == "--sweep" else "schedules"] > 0


def test_what_a_sweep_finds_is_saved_and_replayed_exactly(tmp_path: Path) -> None:
    done = bench(
        "hunt", "--sweep", "aborts", "--fault", "abort-leaks-a-page", "--json", "--jobs", "1",
        "--scenario", "tests/scenarios/micro/load_back_under_pressure.toml",
        "--output-dir", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 3, done.stdout + done.stderr
    assert json.loads(done.stdout)["complete"]
    (run,) = tmp_path.iterdir()
    (finding, *_) = (run / "findings").iterdir()
    again = bench("replay", str(finding))
    assert again.returncode == 3, again.stdout + again.stderr


def test_a_hunt_towards_an_order_says_how_often_it_came_about(tmp_path: Path) -> None:
    done = bench(
        "hunt", "--towards", "client.abort -> forward", "--budget", "3s", "--jobs", "1", "--json",
        "--scenario", "tests/scenarios/fast/three_requests_tiny_pools.toml",
        "--output-dir", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["strategy"] == "directed"
    assert summary["towards"]["order"] == "client.abort -> forward"
    assert summary["towards"]["schedules"] > summary["schedules"] / 2
    listed = table("What a hunt leaves behind", number=1)
    assert [row[0] for row in listed] == list(summary)
    (run,) = tmp_path.iterdir()
    files = {row[0] for row in table("What a hunt leaves behind")}
    assert {path.name for path in run.iterdir()} <= files


def test_the_catalogue_lists_every_fault() -> None:
    listed = json.loads(bench("faults", "--json").stdout)
    assert [row["name"] for row in listed] == list(FAULTS)
    assert all(row["summary"] and row["story"] and row["oracles"] for row in listed)


def test_a_score_says_what_was_found_by_whom_and_how_soon(tmp_path: Path) -> None:
    done = bench(
        "faults", "--score", "--fault", "canary", "--fault", "flush-forgets", "--campaigns", "2",
        "--budget", "30s", "--jobs", "1", "--json", "--output-dir", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    page = json.loads(done.stdout)
    assert page["score"] == 1.0
    assert {row["fault"] for row in page["rows"]} == {"canary", "flush-forgets"}
    assert all(row["reached"] == row["detected"] == 2 for row in page["rows"])
    (run,) = tmp_path.iterdir()
    assert {"faults.csv", "campaigns.csv", "detection.png"} <= {p.name for p in run.iterdir()}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["hunt", "--fault", "receiptless"], "receiptless-release"),
        (["hunt", "--strategy", "luck"], "portfolio"),
        (["hunt", "--towards", "forward"], "two or three points"),
        (["hunt", "--grain", "coarse"], "scheduler"),
        (["hunt", "--exhaustive"], "--scenario"),
        (["hunt", "--exhaustive", "--sweep", "all"], "--sweep"),
        (["hunt", "--sweep", "luck"], "aborts"),
        (["hunt", "--sweep", "all", "--scenario", "."], "no *.toml"),
        (["hunt", "--scenario", "no/such.toml"], "no/such.toml"),
        (["hunt", "--hold", "components=full"], "--hold is for releases"),
        (["hunt", "--budget", "0"], "10m"),
        (["replay", "no/such.json"], "no/such.json"),
        (["faults", "--score", "--without", "sleep"], "locks"),
    ],
)
def test_bad_input_ends_in_one_line(tmp_path: Path, words: list[str], says: str) -> None:
    done = bench(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []
