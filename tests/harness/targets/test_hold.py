"""Knobs that a hunt of a release is held to."""

import re

import pytest

from harness.hunt.workers import Search, _Scenarios
from harness.targets.sglang.eras import era_of
from harness.targets.sglang.hold import held_of, words_of
from harness.targets.sglang.scenario import complete, shape_of


def test_every_world_has_what_it_is_held_to() -> None:
    words = ["components=full+mamba", "overlap=true", "chunk=12", "ratio=2.0"]
    held = held_of(words, era_of("0.5.18"))
    scenarios = _Scenarios(Search(target="sglang==0.5.18", held=held), 0)
    for seed in range(20):
        drawn = scenarios.draw(seed)
        assert [drawn[name] for name, _ in held] == ["full+mamba", True, 12, 2.0]


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("components", "no NAME=VALUE"),
        ("pages=3", "there are components"),
        ("requests=3", "there are components"),
        ("components=swa", "full+swa, full, full+mamba"),
        ("components=full+swa+mamba", "not 'full+swa+mamba'"),
        ("chunk=13", "1 to 12"),
        ("chunk=true", "1 to 12"),
        ("overlap=1", "true or false"),
    ],
)
def test_what_no_world_of_the_release_has_is_refused(word: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        held_of([word], era_of("0.5.12"))


def test_a_server_is_told_in_the_knobs_that_small_worlds_have() -> None:
    scenario = complete({"components": "full", "policy": "write_back", "requests": [{}]})
    shape = shape_of(scenario)._replace(page_size=16)  # no small world has such pages
    era = era_of("0.5.12")
    assert era is not None
    words = words_of(shape, era)
    assert "policy=write_back" in words
    assert "overlap=false" in words
    assert "running=1" in words
    assert not [word for word in words if word.startswith("page_size")]
    assert "running=3" in words_of(shape._replace(running=64), era)
