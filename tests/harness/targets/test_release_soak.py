"""A soak of a release: what needs no release, and one that does."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import bench
from cache.config import ConfigError
from harness.cli.errors import UserError
from harness.soak.plan import plan_server
from harness.soak.settings import Serving
from harness.targets.sglang.broken import Broken
from harness.targets.sglang.device import Copy, Event, Stream
from harness.targets.sglang.environment import MissingRelease, folder_of
from harness.targets.sglang.eras import era_of
from harness.targets.sglang.loader import apart
from harness.targets.sglang.sized import sized
from harness.targets.sglang.timed import Costs
from harness.targets.sglang.tokens import named
from harness.targets.sglang.watched import harness_raised

ROOT = Path(__file__).resolve().parents[3]
SMALL = Serving(tp=1, device_pages=1000, chunked_prefill_size=4096)
NEWEST = era_of("0.5.23")
OLDEST = era_of("0.5.12")
assert NEWEST is not None
assert OLDEST is not None


def test_tokens_agree_exactly_as_far_as_their_symbols_do() -> None:
    first = np.arange(5_000, dtype=np.int32)
    second = first.copy()
    second[3_000] = 7
    same = named(first) == named(second)
    assert same[:3_000].all()
    assert not same[3_000:].any()
    assert not (named(first) == named(first, "another")).any()
    assert named(first).min() > 0
    assert named(first).max() < 1 << 31


def test_a_stream_marks_what_is_over_before_its_next_work_begins() -> None:
    line, event = Stream(), Event()
    line.name, line.deferred = "d2h", True
    line.issue("backup", lambda: None)
    event.record(line)
    line.issue("backup", lambda: None)
    assert line.pass_marks() == 0
    assert line.next_work == "backup"
    line.run_next()
    assert (line.ran, event.query()) == (1, True)
    line.run_next()
    assert (line.ran, line.next_work) == (2, "")


def test_work_that_a_thread_waits_for_is_told_of_first() -> None:
    line, event, told = Stream(), Event(), []
    line.name, line.deferred = "d2h", True
    line.forced = lambda stream: told.append((stream.next_work, stream.ran))
    line.issue("backup", lambda: None)
    event.record(line)
    event.synchronize()
    assert told == [("backup", 0)]


def test_a_copy_of_twice_the_slots_takes_longer() -> None:
    costs = Costs.of(plan_server(SMALL))
    one, two = np.arange(64), np.arange(128)
    short = costs.copy_s(Copy("full", True, one, one))
    assert 0 < short < costs.copy_s(Copy("full", True, two, two))
    assert (
        costs.bytes_of(Copy("full", True, two, two)) == 2 * plan_server(SMALL).config.page_bytes[0]
    )


def test_a_release_has_the_pools_of_the_flags_and_a_context_that_fits_into_them() -> None:
    shape = sized(plan_server(SMALL), SMALL, NEWEST)
    assert (shape.full, shape.page_size, shape.policy) == (64_000, 64, "write_through_selective")
    assert 0 < shape.swa < shape.full
    assert shape.context + shape.chunk + shape.window < shape.swa
    full = replace(SMALL, components=("full",), hierarchical=False)
    shape = sized(plan_server(full), full, NEWEST)
    assert (shape.swa, shape.window, shape.ratio) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"device_pages": 100}, "raise --device-pages"),
        ({"chunked_prefill_size": 4_097}, "multiple of 64"),
        ({"hicache_ratio": 0.5}, "--hicache-ratio 1"),
        ({"model": "Qwen3-Next-80B-A3B"}, "--components full"),
    ],
)
def test_sizes_that_a_release_cannot_have_are_refused_with_what_to_type(
    changes: dict[str, object], says: str
) -> None:
    serving = replace(SMALL, **changes)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=says):
        sized(plan_server(serving), serving, OLDEST)


def test_a_failure_of_the_harness_is_not_taken_for_one_of_the_release() -> None:
    with pytest.raises(TypeError) as failed:
        named(None)  # type: ignore[arg-type]
    assert harness_raised(failed.value)
    assert not harness_raised(Broken("C2", "foreign", "a", "b"))
    with pytest.raises(ZeroDivisionError) as elsewhere:
        _ = 1 / 0
    assert not harness_raised(elsewhere.value)


def test_other_libraries_are_given_back_what_was_there() -> None:
    before = list(sys.meta_path)
    with apart():
        pass
    assert sys.meta_path == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--target", "vllm==1"], "sglang==VERSION"),
        (["--target", "sglang==9.9.9"], "no adapter knows"),
    ],
)
def test_a_target_that_is_not_there_is_refused_in_one_line(words: list[str], says: str) -> None:
    done = CliRunner().invoke(bench.cli, ["soak", *words])
    assert isinstance(done.exception, UserError)
    assert says in str(done.exception)


def here(version: str) -> None:
    try:
        folder_of(version, ROOT / ".sglang")
    except MissingRelease as error:
        pytest.skip(str(error))


def soak(version: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "bench.py", "soak", "--target", f"sglang=={version}", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.sglang
def test_a_soak_of_a_release_passes_twice_alike_and_leaves_a_run(tmp_path: Path) -> None:
    here("0.5.23")
    words = ["--workload", "chat", "--num-requests", "120", "--request-rate", "4"]
    words += ["--device-pages", "400", "--chunked-prefill-size", "2048", "--json"]
    words += ["--components", "full", "--output-dir", str(tmp_path)]
    summaries = []
    for _ in range(2):
        done = soak("0.5.23", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        summaries.append(json.loads(done.stdout))
    assert summaries[0]["digest"] == summaries[1]["digest"]
    assert summaries[0]["completed"] == summaries[0]["verified"] == 120
    assert summaries[0]["cached_tokens_host"] > 0
    run = tmp_path / summaries[0]["run"]
    for name in ("run.json", "requests.csv", "timeseries.csv", "violations.jsonl", "report.html"):
        assert (run / name).stat().st_size or name == "violations.jsonl"


@pytest.mark.sglang
def test_a_soak_ends_at_a_violation_and_the_hunt_that_it_names_finds_the_same(
    tmp_path: Path,
) -> None:
    here("0.5.12")
    words = ["--workload", "chat", "--num-requests", "250", "--request-rate", "2"]
    words += ["--device-pages", "1000", "--chunked-prefill-size", "4096", "--components", "full"]
    words += ["--hicache-write-policy", "write_back", "--output-dir", str(tmp_path)]
    done = soak("0.5.12", *words)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "hunt --target sglang==0.5.12" in done.stdout
    (run,) = tmp_path.iterdir()
    (line,) = (run / "violations.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert (found["oracle"], len(found["last"])) == ("crash", 40)
    assert "release_component_lock" in found["signature"]
    assert (run / "report.html").is_file()
    printed = shlex.split(found["hunt"])
    assert printed[:2] == ["python", "bench.py"]
    command = [sys.executable, *printed[1:], "--shrink", "1s", "--json"]
    done = subprocess.run(
        [*command, "--output-dir", str(tmp_path / "hunt")], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 3, done.stdout + done.stderr
    (same,) = json.loads(done.stdout)["findings"]
    assert same["kind"] == f"{found['oracle']}.{found['signature']}"


@pytest.mark.parametrize(
    "words",
    [
        ["--tp", "2"],
        ["--clock", "wall"],
        ["--compute", "model"],
        ["--hicache-storage-backend", "memory"],
        ["--prefetch-threshold", "1"],
        ["--load-back-threshold", "9"],
        ["--ids-as-pages"],
    ],
    ids=lambda words: words[0],
)
def test_what_does_not_apply_to_a_release_is_refused_in_one_line(words: list[str]) -> None:
    done = CliRunner().invoke(bench.cli, ["soak", "--target", "sglang==0.5.23", *words])
    assert isinstance(done.exception, UserError)
    said = str(done.exception)
    assert "\n" not in said
    assert any(hint in said for hint in ("leave --", "use --"))
