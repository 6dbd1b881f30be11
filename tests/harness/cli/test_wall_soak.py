"""A soak on the wall clock from the outside: run, followed, compared with a simulation of it."""

import json
from pathlib import Path
from typing import NoReturn

import pytest
import torch
from click.testing import CliRunner, Result

from bench import cli, guarded
from harness.cli.follow import saved_run
from harness.engine.hardware import load_hardware
from harness.ranks.party import RankLost
from harness.verdict import Exit

TINY = [
    "soak", "--clock", "wall", "--compute", "model", "--model", "tiny-swa", "--device-pages", "40",
    "--workload", "shared_prefix", "--request-rate", "inf", "--set", "num_groups=2",
    "--set", "prompts_per_group=2", "--set", "system_prompt_len=48", "--set", "question_len=8",
    "--set", "output_len=3", "--check-logits", "1", "--json",
]  # fmt: skip


def bench(*words: str) -> Result:
    threads = torch.get_num_threads()
    try:
        return CliRunner().invoke(cli, list(words))
    finally:
        torch.set_num_threads(threads)


def test_a_measured_run_can_be_followed_and_simulated(tmp_path: Path) -> None:
    done = bench(*TINY, "--output-dir", str(tmp_path))
    assert done.exit_code == Exit.INCONCLUSIVE, done.output  # nothing had to be evicted
    summary = json.loads(done.output)
    assert (summary["completed"], summary["violations"]) == (4, 0)
    assert summary["logits_checked_requests"] == 8
    directory = tmp_path / summary["run"]
    series = (directory / "timeseries.csv").read_text()
    assert ",pss_bytes," in series
    assert ",device_tensor_bytes," in series

    assert saved_run(directory).serving.load_back_overlap == "layer"

    followed = bench("replay", str(directory))
    assert followed.exit_code == Exit.PASS, followed.output
    assert summary["digest"] in followed.output

    drifted = bench("drift", str(directory), "--hardware", "cpu", "--at-most", "1000")
    assert drifted.exit_code == Exit.PASS, drifted.output
    assert json.loads((directory / "drift.json").read_text())["requests"] == 4
    assert (directory / "ttft_virtual_against_wall.png").exists()
    fitted = bench("drift", str(directory))
    assert fitted.exit_code == Exit.PASS, fitted.output
    assert load_hardware(str(directory / "hardware.json")).step_overhead_s > 0
    beyond = bench("drift", str(directory), "--hardware", "cpu", "--at-most", "0")
    assert beyond.exit_code == Exit.THRESHOLD

    decisions = directory / "decisions.csv"
    lines = decisions.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if "forward.decode" in line)
    decisions.write_text("\n".join(lines[:at] + lines[at + 1 :]) + "\n")
    parted = bench("replay", str(directory))
    assert parted.exit_code == Exit.NONDETERMINISM
    assert "DIVERGED: step" in parted.output

    page = json.loads((directory / "run.json").read_text())
    del page["settings"]["load_back_overlap"]
    (directory / "run.json").write_text(json.dumps(page))
    assert saved_run(directory).serving.load_back_overlap == "none"  # as runs were before it


def test_a_run_between_two_rehearsals_is_held_against_them(tmp_path: Path) -> None:
    more = ["--chunked-prefill-size", "16", "--set", "num_groups=5", "--set", "output_len=12"]
    more += ["--output-dir", str(tmp_path), "--check-logits", "0", "--calibrate", "1m"]
    done = bench(*TINY, *more)
    assert done.exit_code in (Exit.PASS, Exit.INCONCLUSIVE), done.output
    (directory,) = tmp_path.iterdir()
    preset = load_hardware(str(directory / "calibrated.json"))
    assert preset.step_overhead_s + preset.sequence_overhead_s > 0
    drifted = bench("drift", str(directory), "--at-most", "1000")
    assert drifted.exit_code in (Exit.PASS, Exit.INCONCLUSIVE), drifted.output
    assert "after the run compared with before" in drifted.output
    told = json.loads((directory / "drift.json").read_text())
    assert told["hardware"].endswith("calibrated.json")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--clock", "virtual"], "add --clock wall"),
        (["--tp", "2"], "add --tp 1"),
        ([], "prefills, and a fit takes 20"),
    ],
)
def test_what_cannot_be_rehearsed_is_refused_in_one_line(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*TINY, "--output-dir", str(tmp_path), "--calibrate", "1s", *flags]
    code = guarded(lambda: cli.main(command, standalone_mode=False))
    assert code == Exit.USAGE
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert words in said
    assert not list(tmp_path.iterdir())


def test_ranks_that_do_not_come_together_are_no_run_and_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def leading(*given: object) -> NoReturn:
        raise RankLost("rank 1 left with exit code 1")

    monkeypatch.setattr("harness.cli.soak.leading", leading)
    command = [*TINY, "--output-dir", str(tmp_path), "--tp", "2"]
    assert guarded(lambda: cli.main(command, standalone_mode=False)) == Exit.RUN_FAILED
    assert capsys.readouterr().err == "FAILED: rank 1 left with exit code 1\n"
    (directory,) = tmp_path.iterdir()
    page = json.loads((directory / "summary.json").read_text())
    assert page["verdict_reason"] == "the run failed: rank 1 left with exit code 1"


@pytest.mark.parametrize("command", ["replay", "drift"])
def test_a_directory_of_something_else_is_refused_in_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--hardware", "cpu"] if command == "drift" else []
    code = guarded(lambda: cli.main([command, str(tmp_path), *more], standalone_mode=False))
    assert code == Exit.USAGE
    assert capsys.readouterr().err.count("\n") == 1
