"""A scrape is read as the server meant it."""

import pytest

from harness.load.backends import SGLANG, VLLM
from harness.load.watcher import Watcher, parse

SAMPLE = 'sglang:prompt_tokens_total{model_name="m",tp_rank="%d"} %d\n'


def test_ranks_that_repeat_a_sample_are_not_summed():
    text = "# TYPE sglang:prompt_tokens counter\n" + SAMPLE % (0, 70) + SAMPLE % (1, 70)
    assert parse(text, SGLANG) == {"prompt": 70.0}


def test_other_series_are_summed_and_tiers_told_apart():
    line = 'sglang:cached_tokens_total{model_name="%s",cache_source="%s"} %d\n'
    text = "# TYPE sglang:cached_tokens counter\n"
    text += line % ("a", "device", 1) + line % ("b", "device", 2)
    text += line % ("a", "host", 4) + line % ("a", "storage_file", 8)
    found = parse(text, SGLANG)
    assert found == {"cached_device": 3.0, "cached_host": 4.0, "cached_storage": 8.0}


def test_what_is_absent_is_not_zero():
    assert parse("", SGLANG) == {}
    watcher = Watcher(Said(["# nothing\n", "# nothing\n"]), SGLANG)
    watcher.look()
    watcher.look()
    assert watcher.grown("prompt") is None


def test_vllm_names_are_known_too():
    text = 'vllm:prefix_cache_hits_total{model_name="m"} 5.0\n'
    assert parse(text, VLLM) == {"cached_device": 5.0}


class Said:
    """A line to a server that answers what it was given, then hangs up."""

    def __init__(self, answers):
        self._answers = list(answers)

    def fetch(self, method, path):
        assert (method, path) == ("GET", "/metrics")
        if not self._answers:
            raise ConnectionRefusedError
        return 200, self._answers.pop(0)


def test_growth_is_counted_from_the_first_look():
    watcher = Watcher(Said([SAMPLE % (0, 10), SAMPLE % (0, 30)]), SGLANG)
    assert watcher.look()
    assert watcher.look()
    assert watcher.grown("prompt") == 20.0
    assert watcher.restarted == ""


def test_a_counter_that_shrinks_means_another_life_of_the_server():
    watcher = Watcher(Said([SAMPLE % (0, 10), SAMPLE % (0, 3)]), SGLANG)
    watcher.look()
    watcher.look()
    assert "prompt" in watcher.restarted


@pytest.mark.parametrize("looks", [1, 3])
def test_looks_without_an_answer_are_counted(looks):
    watcher = Watcher(Said([]), SGLANG)
    assert [watcher.look() for _ in range(looks)] == [False] * looks
    assert watcher.failures == looks
