"""An exposition is read as the server meant it."""

import pytest

from harness.load.names import SGLANG, VLLM, Names, parse

PROMPT = 'sglang:prompt_tokens_total{model_name="m",tp_rank="%d"} %d\n'


def test_tensor_ranks_that_repeat_a_sample_are_not_summed():
    text = "# TYPE sglang:prompt_tokens counter\n" + PROMPT % (0, 70) + PROMPT % (1, 70)
    assert parse(text, SGLANG) == {"prompt": 70.0}


def test_data_parallel_ranks_serve_different_requests_and_are_summed():
    line = 'sglang:kv_used_tokens{dp_rank="%d",tp_rank="%d"} %d\n'
    text = line % (0, 0, 5) + line % (0, 1, 5) + line % (1, 2, 8)
    assert parse(text, SGLANG) == {"used": 13.0}


def test_a_share_is_that_of_the_fullest_rank():
    line = 'vllm:kv_cache_usage_perc{engine="%d"} %s\n'
    assert parse(line % (0, "0.25") + line % (1, "0.75"), VLLM) == {"usage": 0.75}


def test_other_series_are_summed_and_tiers_told_apart():
    line = 'sglang:cached_tokens_total{model_name="%s",cache_source="%s"} %d\n'
    text = line % ("a", "device", 1) + line % ("b", "device", 2)
    text += line % ("a", "host", 4) + line % ("a", "storage_file", 8)
    found = parse(text, SGLANG)
    assert found == {"cached_device": 3.0, "cached_host": 4.0, "cached_storage": 8.0}


@pytest.mark.parametrize(
    ("name", "label", "full"),
    [("load_back", "pool", "kv"), ("evicted", "cache_type", "full")],
)
def test_tokens_of_windows_and_states_are_not_added_to_those_of_full_attention(name, label, full):
    line = f'sglang:{name}_tokens_total{{{label}="%s"}} %d\n'
    field = {"load_back": "loaded_back"}.get(name, name)
    assert parse(line % (full, 64) + line % ("swa", 32), SGLANG) == {field: 64.0}
    assert parse(line % ("SWARadixCache", 32), SGLANG) == {field: 32.0}


def test_vllm_tells_hits_of_the_device_and_of_what_is_below_it():
    text = 'vllm:prefix_cache_hits_total{model_name="m"} 5.0\n'
    text += 'vllm:external_prefix_cache_hits_total{model_name="m"} 7.0\n'
    assert parse(text, VLLM) == {"cached_device": 5.0, "cached_host": 7.0}


@pytest.mark.parametrize("names", [SGLANG, VLLM])
def test_every_name_is_read(names: Names):
    text = "".join(f"{name} 1.0\n" for name in names if name)
    fields = {field for field, name in names._asdict().items() if name}
    assert set(parse(text, names)) == fields - {"cached"} | {"cached_device"}


def test_names_that_only_begin_alike_and_comments_are_left_out():
    text = "# HELP sglang:token_usage x\nsglang:token_usage_more 3\nsglang:token_usage 0.5\n"
    assert parse(text, SGLANG) == {"usage": 0.5}
    assert parse("", SGLANG) == {}
