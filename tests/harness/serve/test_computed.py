"""A server whose answers are computed: the same from every tier, and wrong where the cache is."""

import pytest
import torch

from tests.harness.serve.live import serving

PAGE = 16
MODEL = {
    "compute": "model",
    "model": "tiny-hybrid",
    "hardware": "cpu",
    "tp": 1,
    "decoding": "greedy",
    "check_logits": 1.0,
    "device_pages": 40,
    "max_mamba_cache_size": 12,
    "chunked_prefill_size": 128,
    "max_running_requests": 4,
    "hicache_write_policy": "write_through",
    "storage_size": 0.1,
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _prompt(number: int, pages: int = 12) -> list[int]:
    return [(number * 97 + n * n) % 512 for n in range(pages * PAGE + 1)]


def _details(reply) -> dict[str, int]:
    return reply["usage"]["prompt_tokens_details"]["cached_tokens_details"]


STORED = {
    **MODEL,
    "hicache_storage_backend": "memory",
    "hicache_storage_prefetch_policy": "wait_complete",
    "prefetch_threshold": PAGE,
}


def test_an_answer_is_the_models_own_wherever_its_prefix_came_from(tmp_path):
    with serving(tmp_path, **STORED) as live:
        first = live.complete(_prompt(0), return_token_ids=True)
        warm = live.complete(_prompt(0), return_token_ids=True)
        for number in range(1, 9):  # push it off the device and the host
            live.complete(_prompt(number))
        fetched = live.complete(_prompt(0), return_token_ids=True)
        live.flush()
        anew = live.complete(_prompt(0), cache_salt="other", return_token_ids=True)
        again = live.complete(_prompt(0), return_token_ids=True)
        other = live.complete(_prompt(1), return_token_ids=True)
    assert sum(_details(first).values()) == 0
    assert _details(warm)["device"] > 0
    assert _details(fetched)["storage"] > 0
    answers = [reply["choices"][0] for reply in (first, warm, fetched, again)]
    assert all(answer == answers[0] for answer in answers)
    assert min(answers[0]["token_ids"]) >= 256  # words, of which text can be made
    assert anew["choices"][0]["token_ids"] != answers[0]["token_ids"]  # another namespace
    assert other["choices"][0]["token_ids"] != answers[0]["token_ids"]
    (served,) = live.served
    assert served.verdict.value == "pass"
    assert served.summary["logits_checked_requests"] == 2 * served.summary["completed"]


def test_a_cache_that_serves_another_namespaces_pages_answers_wrongly_and_n1_says_so(tmp_path):
    with serving(tmp_path, **STORED, fault="key-without-namespace") as live:
        salted = {"cache_salt": "tenant", "return_token_ids": True}
        first = live.complete(_prompt(0), **salted)
        live.complete(_prompt(0))
        for number in range(1, 9):  # push both off the device and the host
            live.complete(_prompt(number))
        back = live.complete(_prompt(0), **salted)
    assert _details(back)["storage"] > 0
    assert first["choices"] != back["choices"]
    (served,) = live.served
    assert served.verdict.value == "violation"
    lines = (served.recorded.directory.path / "violations.jsonl").read_text()
    assert '"oracle":"N1"' in lines.replace(" ", "")


def test_a_client_that_leaves_takes_its_request_with_it_and_a_flush_leaves_nothing(tmp_path):
    with serving(tmp_path, **MODEL) as live:
        body = {"prompt": _prompt(5), "max_tokens": 200, "stream": True}
        with live.client.stream("POST", "/v1/completions", json=body) as reply:
            next(reply.iter_lines())
        live.complete(_prompt(6))
        live.assert_whole()
    assert live.served[0].verdict.value == "pass"
