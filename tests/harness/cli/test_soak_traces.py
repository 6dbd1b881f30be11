"""A soak replays every format, and says how it read it."""

import json
from pathlib import Path

import pytest

from bench import cli, guarded

DATA = Path(__file__).resolve().parents[2] / "data"
QUICK = ("--compute", "null", "--device-pages", "4000", "--context-length", "131072", "--tp", "1")


def soak(tmp_path: Path, trace: str, *words: str) -> int:
    asked = ["soak", "--trace", str(DATA / trace), "--output-dir", str(tmp_path), *QUICK, *words]
    return guarded(lambda: cli.main(asked, standalone_mode=False))


@pytest.mark.parametrize(
    ("trace", "name"),
    [
        ("azure_conv_300.csv", "azure"),
        ("llmservingsim.jsonl", "llmservingsim"),
        ("ragpulse/0_trace.jsonl", "ragpulse"),
        ("tair_optimizer.jsonl", "tair"),
        ("tracelab_replay.csv", "tracelab-replay"),
        ("weka", "weka"),
    ],
)
def test_a_format_is_replayed_and_named_in_the_manifest(tmp_path, capsys, trace, name):
    assert soak(tmp_path, trace, "--duration", "1m", "--oracles", "off", "--json") in (0, 5)
    said = capsys.readouterr()
    assert json.loads(said.out)["completed"] > 0
    assert f"{trace}: {name}, times in" in said.err
    (run,) = tmp_path.iterdir()
    manifest = json.loads((run / "run.json").read_text())
    assert manifest["workload"]["format"] == name
    assert manifest["settings"]["trace_format"] == "auto"
    means_nothing = any("hit rates mean nothing" in note for note in manifest["notes"])
    assert means_nothing == (name == "azure")
    assert manifest["workload"]["prefixes"]


def test_ids_are_counted_in_any_format_that_has_them(tmp_path, capsys):
    one_tier = ("--ids-as-pages", "--components", "full", "--disable-hierarchical-cache")
    assert soak(tmp_path, "weka", *one_tier, "--json") == 0
    assert json.loads(capsys.readouterr().out)["hit_pages"] == 821
    assert soak(tmp_path, "azure_conv_300.csv", *one_tier) == 2
    assert "has no block ids" in capsys.readouterr().err
