"""`calibrate` writes a preset that `--hardware` takes, and refuses in one line."""

import json

import pytest
from click.testing import CliRunner

from bench import cli, guarded
from cache.shapes import load_shape
from harness.calibrate import run
from harness.engine.hardware import load_hardware
from harness.verdict import Exit

TINY = ["calibrate", "--model", "tiny", "--device", "cpu", "--page-size", "4", "--repeats", "1"]


def test_a_calibration_can_be_used_as_hardware(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "WORST_MISFIT", float("inf"))  # this machine may be busy
    path = tmp_path / "new" / "here.json"
    done = CliRunner().invoke(cli, [*TINY, "--output", str(path)])
    assert done.exit_code == Exit.PASS, done.output
    hardware = load_hardware(str(path))
    assert len(hardware.copies) == 6
    assert load_shape("tiny").name in hardware.source
    page = json.loads(path.read_text())
    assert "mbu" in page["assumed"]
    assert {"samples", "misfits", "machine", "versions", "doubts"} < page.keys()
    soaked = CliRunner().invoke(
        cli,
        ["soak", "--num-requests", "5", "--hardware", str(path), "--model", "tiny",
         "--device-pages", "5000", "--oracles", "off", "--output-dir", str(tmp_path), "--json"],
    )  # fmt: skip
    assert soaked.exit_code in (Exit.PASS, Exit.INCONCLUSIVE), soaked.output
    settings = json.loads(next(tmp_path.glob("*/run.json")).read_text())["settings"]
    assert settings["hardware"].endswith("here.json")


def test_a_busy_machine_is_inconclusive_and_the_file_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "WORST_MISFIT", -1.0)
    path = tmp_path / "here.json"
    done = CliRunner().invoke(cli, [*TINY, "--output", str(path)])
    assert done.exit_code == Exit.INCONCLUSIVE
    assert len(json.loads(path.read_text())["doubts"]) >= 6


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--output", "here.toml"], ".json"),
        (["--repeats", "0"], "--repeats"),
        (["--model", "nothing"], "nothing"),
        (["--kv-cache-dtype", "int3"], "int3"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(flags, complaint, capsys):
    assert guarded(lambda: cli.main([*TINY, *flags], standalone_mode=False)) == Exit.USAGE
    told = capsys.readouterr().err
    assert complaint in told
    assert told.count("\n") == 1
