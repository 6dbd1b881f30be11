"""A server is watched: what grew, what was never told, and whether it lives the same life."""

import json

import pytest

from harness.load.names import SGLANG
from harness.load.watcher import INFO_EVERY, Watcher

PROMPT = "sglang:prompt_tokens_total %d\n"


class Said:
    """A line to a server that answers what it was given, then hangs up."""

    def __init__(self, *answers, info=()):
        self._answers = list(answers)
        self._info = list(info)
        self.asked = []

    def fetch(self, method, path):
        self.asked.append(path)
        if path.endswith("server_info"):
            return (200, json.dumps(self._info.pop(0))) if self._info else (404, "")
        if not self._answers:
            raise ConnectionRefusedError
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return 200, answer


def _watch(*answers, info=()):
    watcher = Watcher(Said(*answers, info=info), SGLANG)
    for _ in answers:
        watcher.look()
    return watcher


def test_growth_is_counted_from_the_first_look():
    watcher = _watch(PROMPT % 10, PROMPT % 30)
    assert watcher.grown("prompt") == 20.0
    assert watcher.restarted == ""


def test_a_counter_that_appears_later_is_counted_from_zero():
    assert _watch("", "sglang:evicted_tokens_total 64\n").grown("evicted") == 64.0


def test_what_is_absent_is_not_zero():
    watcher = _watch("# nothing\n", "# nothing\n")
    assert watcher.grown("prompt") is None
    assert watcher.last == {}


def test_a_counter_that_shrinks_means_another_life_and_is_counted_on():
    watcher = _watch(PROMPT % 10, PROMPT % 30, PROMPT % 3, PROMPT % 7)
    assert "prompt fell from 30 to 3" in watcher.restarted
    assert watcher.grown("prompt") == 27.0


@pytest.mark.parametrize(
    "pages",
    [
        ({"boot": "a"}, {"boot": "b"}),
        ({"internal_states": [{"startup_time": 1.5}]}, {"internal_states": [{"startup_time": 2}]}),
    ],
)
def test_a_server_that_names_another_start_has_started_anew(pages):
    again = [PROMPT % n for n in range(INFO_EVERY + 1)]
    assert _watch(*again, info=(pages[0], pages[0])).restarted == ""
    watcher = _watch(*again, info=pages)
    assert "another start" in watcher.restarted
    assert watcher.info == pages[0]


def test_after_looks_that_failed_the_server_is_asked_for_its_life_at_once():
    watcher = _watch("", ConnectionRefusedError(), "", info=({"boot": "a"}, {"boot": "b"}))
    assert watcher.restarted


def test_a_process_that_started_later_is_another_life():
    line = "process_start_time_seconds %d\n"
    assert "started" in _watch(line % 5, line % 6).restarted


@pytest.mark.parametrize(("error", "refused"), [(TimeoutError(), False), (OSError(), True)])
def test_looks_without_an_answer_are_counted(error, refused):
    watcher = _watch(error, error)
    assert (watcher.failures, watcher.refused) == (2, refused)


def test_peaks_are_kept():
    line = "sglang:kv_used_tokens %d\n"
    assert _watch(line % 5, line % 9, line % 2).peaks["used"] == 9.0
