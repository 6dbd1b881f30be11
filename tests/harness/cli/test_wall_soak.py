"""A soak on the wall clock from the outside: run, followed, compared with a simulation of it."""

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from bench import cli, guarded
from harness.cli.follow import saved_run
from harness.engine.hardware import load_hardware
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


@pytest.mark.parametrize("command", ["replay", "drift"])
def test_a_directory_of_something_else_is_refused_in_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--hardware", "cpu"] if command == "drift" else []
    code = guarded(lambda: cli.main([command, str(tmp_path), *more], standalone_mode=False))
    assert code == Exit.USAGE
    assert capsys.readouterr().err.count("\n") == 1
