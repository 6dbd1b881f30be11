"""Answers are compared warm, after an eviction, and flushed; what differs is told by its word."""

import pytest

from harness.load.asker import Asker
from harness.load.checks import check_outputs
from harness.load.ended import Kept
from harness.load.settings import Loading
from tests.harness.serve.live import serving
from workloads.tokens import Span

PAGES, PAGE = 120, 16
SERVER = {"components": ("full",), "device_pages": PAGES, "hicache_ratio": 8.0,
          "hicache_write_policy": "write_through"}  # fmt: skip


class Told(list):
    def __call__(self, oracle, signature, expected, seen):
        self.append((oracle, signature, expected, seen))

    @property
    def signatures(self):
        return {told[1] for told in self}


def _asker(live) -> Asker:
    vocab = live.engine.plan.shape.vocab_size
    return Asker(Loading(base_url=live.url, vocab_size=vocab), model=live.model, api_key="")


def _kept(number, text):
    return Kept(f"r{number}", "", 0, (Span(number, 0, 20 * PAGE),), 6, text)


def _answered(asker, count):
    """Prompts with the answers that the server gave them."""
    line = asker.line()
    try:
        asked = [_kept(number, "") for number in range(count)]
        texts = [line.complete(asker.body_again(kept), lambda: None).text for kept in asked]
    finally:
        line.close()
    return [kept._replace(text=text) for kept, text in zip(asked, texts, strict=True)]


def _check(asker, answered, told, *, device_tokens=PAGES * PAGE):
    return check_outputs(
        answered, asker, share=1.0, seed=0, device_tokens=device_tokens, report=told
    )


def test_sound_answers_are_equal_warm_loaded_back_and_flushed(tmp_path):
    with serving(tmp_path, **SERVER) as live:
        asker, told = _asker(live), Told()
        checked = _check(asker, _answered(asker, 3), told)
    assert told == []
    assert (checked.asked, checked.differed) == (3, 0)
    assert checked.loaded_back == 3
    assert checked.evicted.startswith("evicted by ")


def test_an_answer_that_was_another_one_is_told_by_its_first_word_that_differs(tmp_path):
    with serving(tmp_path, **SERVER) as live:
        asker, told = _asker(live), Told()
        answered = _answered(asker, 2)
        words = answered[1].text.split(" ")
        wrong = answered[1]._replace(text=" ".join([*words[:2], "zebra", *words[3:]]))
        checked = _check(asker, [answered[0], wrong], told)
    assert checked.differed == 3
    assert told.signatures == {"output.warm", "output.loaded_back", "output.flushed"}
    for oracle, _, expected, seen in told:
        assert oracle == "C1"
        assert expected.startswith("r1: zebra")
        assert expected.endswith("at word 2")
        assert seen.split(" ")[0] == words[2]


def test_a_cache_that_spoils_what_it_reads_is_seen_by_the_answers(tmp_path):
    with serving(tmp_path, fault="canary", **SERVER) as live:
        asker, told = _asker(live), Told()
        checked = _check(asker, _answered(asker, 3), told)
    assert checked.differed > 0
    assert told.signatures & {"output.warm", "output.loaded_back", "output.flushed"}


def test_a_server_that_tells_no_pool_is_not_called_evicted(tmp_path):
    with serving(tmp_path, **SERVER) as live:
        asker, told = _asker(live), Told()
        checked = _check(asker, _answered(asker, 1), told, device_tokens=0)
    assert told == []
    assert checked.evicted == "not evicted: the server tells no size of its pool"


def test_a_server_that_is_gone_is_an_error_of_every_answer(tmp_path):
    with serving(tmp_path, **SERVER) as live:
        asker = _asker(live)
        answered = _answered(asker, 1)
    told = Told()
    checked = _check(asker, answered, told)
    assert told.signatures == {"output.warm.error", "output.loaded_back.error"}
    assert checked.evicted.startswith("not all evicted: ConnectionRefusedError")


@pytest.mark.parametrize(("share", "asked"), [(0.5, 2), (0.01, 1)])
def test_a_share_of_the_prompts_is_asked_and_at_least_one(tmp_path, share, asked):
    with serving(tmp_path, **SERVER) as live:
        asker, told = _asker(live), Told()
        checked = check_outputs(_answered(asker, 4), asker, share=share, seed=3,
                                device_tokens=0, report=told)  # fmt: skip
    assert checked.asked == asked


def test_nothing_answered_is_nothing_to_check(tmp_path):
    asker = Asker(Loading(base_url="http://127.0.0.1:9"), model="m", api_key="")
    checked = _check(asker, [], Told())
    assert (checked.asked, checked.differed, checked.evicted) == (0, 0, "")
