"""A server with several ranks: each has a cache, what they agree on is watched, answers are one."""

import pytest

from tests.harness.serve.live import serving

PAGE = 16
PRESSED = {
    "tp": 2,
    "components": ("full",),
    "device_pages": 70,
    "hicache_ratio": 4.0,
    "hicache_write_policy": "write_through",
    "hicache_storage_backend": "memory",
}


def _prompt(number: int, pages: int) -> list[int]:
    return [1000 + number * 600 + n for n in range(pages * PAGE + 1)]


def _serve_until_loaded_back(live) -> None:
    for number in (0, 1, 2, 3, 0):  # the first is pushed off the device and comes back
        live.complete(_prompt(number, 30))


def test_ranks_agree_hold_the_same_and_are_empty_after_a_flush(tmp_path):
    with serving(tmp_path, **PRESSED) as live:
        _serve_until_loaded_back(live)
        cache = live.engine.cache
        first, second = cache.ranks
        assert cache.agreed > 0
        assert first.residency.held_pages == second.residency.held_pages
        assert live.metrics()["sglang:load_back_tokens_total"] > 0
        live.assert_whole()
        assert all(not any(rank.residency.held_pages.values()) for rank in cache.ranks)
    assert live.served[0].verdict.value == "pass"


@pytest.mark.parametrize(("fault", "oracle"), [("skipped-agreement", "R2"), ("canary", "C1")])
def test_a_defect_of_the_ranks_is_seen(tmp_path, fault, oracle):
    with serving(tmp_path, fault=fault, **PRESSED) as live:
        for number in (0, 1, 2, 3, 0):  # whether it answers or has stopped by then
            live.client.post("/v1/completions", json={"prompt": _prompt(number, 30)})
    assert live.served[0].verdict.value == "violation"
    (found,) = tmp_path.glob("*/violations.jsonl")
    assert f'"{oracle}' in found.read_text()
