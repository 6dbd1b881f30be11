"""What the server says is told as it said it, and proves which tiers were used."""

from math import isnan

from harness.load.names import SGLANG
from harness.load.server_info import settings_of
from harness.load.server_side import counts_of, proof_of, sample_of
from harness.load.watcher import Watcher
from harness.record.metrics import TIMESERIES
from harness.record.summary import RUN_KEYS

NOTHING = {"device": 0, "host": 0, "storage": 0}
TEXT = """\
sglang:prompt_tokens_total %(n)d
sglang:cached_tokens_total{cache_source="device"} %(n)d
sglang:cached_tokens_total{cache_source="host"} %(host)d
sglang:load_back_tokens_total %(host)d
sglang:hicache_host_total_tokens 100
sglang:hicache_host_used_tokens %(n)d
sglang:time_to_first_token_seconds_sum %(n)d
sglang:time_to_first_token_seconds_count 4
"""


class Said:
    def __init__(self, *texts):
        self._texts = list(texts)

    def fetch(self, method, path):
        return (200, self._texts.pop(0)) if path == "/metrics" else (404, "")


def _watcher(*pairs):
    watcher = Watcher(Said("", *(TEXT % {"n": n, "host": host} for n, host in pairs)), SGLANG)
    for _ in range(len(pairs) + 1):
        watcher.look()
    return watcher


def test_totals_go_into_the_series_and_what_is_not_told_is_nan():
    sample = sample_of(_watcher((3, 0), (9, 5)), answered=True)
    assert sample["server_prompt_tokens"] == 9.0
    assert sample["server_cached_host_tokens"] == 5.0
    assert isnan(sample["server_evicted_tokens"])
    assert sample["server_up"] == 1.0
    assert set(sample) <= set(TIMESERIES)


def test_a_silent_server_is_no_zero():
    sample = sample_of(_watcher((3, 0)), answered=False)
    assert sample.pop("server_up") == 0.0
    assert all(isnan(value) for value in sample.values())


def test_counts_have_peaks_and_the_mean_ttft():
    counts = counts_of(_watcher((20, 0), (8, 8)))
    assert counts["server_peak_host_tokens"] == 20
    assert counts["server_mean_ttft_ms"] == 28 / 4 * 1e3  # the sum shrank: it began anew
    assert "server_evicted_tokens" not in counts
    assert set(counts) <= set(RUN_KEYS)


def test_a_tier_that_gave_nothing_was_not_exercised():
    proof = proof_of(_watcher((9, 0)), {**NOTHING, "device": 9})
    assert proof == "device tier gave 9 tokens, host tier not exercised"


def test_a_tier_that_gave_tokens_is_proven_with_what_was_loaded_back():
    proof = proof_of(_watcher((9, 5)), {**NOTHING, "device": 4, "host": 5})
    assert proof == ("device tier gave 4 tokens, host tier gave 5 tokens, 5 tokens loaded back")


def test_where_answers_tell_no_tiers_the_servers_counters_do():
    proof = proof_of(_watcher((9, 5)), {**NOTHING, "device": 14})
    assert proof.startswith("device tier gave 9 tokens, host tier gave 5 tokens")


def test_secrets_and_paths_of_a_server_stay_out_of_the_record():
    state = {"memory_usage": {"token_capacity": 99}, "env_vars": {"T": "s"}}
    page = {
        "api_key": "s",
        "model_path": "/data/models/m-8b",
        "tp_size": 2,
        "page_size": None,
        "internal_states": [state],
    }
    assert settings_of(page) == {"model_path": "m-8b", "tp_size": 2, "token_capacity": 99}
    assert settings_of({"internal_states": "none"}) == {}
