"""`trace` says what a trace is, and writes it in Mooncake's form."""

import json
from pathlib import Path

import pytest

from bench import cli, guarded

DATA = Path(__file__).resolve().parents[2] / "data"


def trace(*words: str) -> int:
    return guarded(lambda: cli.main(["trace", *words], standalone_mode=False))


def test_a_trace_is_told_in_words(capsys):
    assert trace(str(DATA / "ci_mooncake.jsonl")) == 0
    said = capsys.readouterr().out
    assert "mooncake, times in ms, blocks of 512 tokens, prefixes: block ids" in said
    assert "64 requests in 27 sessions over 1.6 s" in said
    assert "ideal_block_hit_rate 0.4789" in said


def test_the_same_as_json(capsys):
    assert trace(str(DATA / "azure_conv_300.csv"), "--json", "--page-size", "16") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["requests"], found["page_size"]) == ("azure", 300, 16)
    assert found["prompt_tokens"]["p50"] == 972
    assert found["ideal_block_hit_rate"] is None
    assert "hit rates mean nothing" in found["note"]


def test_the_bundled_trace_is_known_by_name_and_has_its_own_times(capsys):
    assert trace("mooncake_conversation_1000.jsonl", "--json") == 0
    assert json.loads(capsys.readouterr().out)["span_s"] == 330.0


def test_a_trace_is_written_in_mooncakes_form(tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    assert trace(str(DATA / "weka"), "--to", str(out)) == 0
    assert "Mooncake's form, times in ms, blocks of 64 tokens" in capsys.readouterr().out
    assert trace(str(out), "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert trace(str(DATA / "weka"), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    kept = ("requests", "prompt_tokens", "output_tokens", "closed_loop", "ideal_token_hit_rate")
    assert {name: again[name] for name in kept} == {name: found[name] for name in kept}
    assert (again["format"], again["block_size"]) == ("mooncake", 64)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["none.jsonl"], "No such file"),
        ([str(DATA / "README.md")], "a trace of one of the formats"),
        ([str(DATA / "ci_mooncake.jsonl"), "--trace-format", "runes"], "is not known: use auto"),
        ([str(DATA / "ci_mooncake.jsonl"), "--block-size", "16"], "96 hash_ids"),
        ([str(DATA / "ci_mooncake.jsonl"), "--block-size", "0"], "at least 1"),
        ([str(DATA / "ci_mooncake.jsonl"), "--to", str(DATA / "README.md")], "File exists"),
    ],
)
def test_bad_input_ends_in_one_line(words, says, capsys):
    assert trace(*words) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 1
