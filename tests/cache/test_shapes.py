"""Model shapes: presets against published numbers, and the bytes that follow from them."""

import dataclasses

import pytest

from cache.config import Component, ConfigError
from cache.shapes import DEFAULT_MODEL, PRESETS, KvDtype, StateDtype, load_shape

BILLION = 1e9


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("gemma-4-31B-it", 30.7, 30.7),
        ("gpt-oss-120b", 116.8, 5.1),
        ("Llama-3.1-8B", 8.03, 7.50),  # the embedding's 0.53 B are looked up, not multiplied
        ("Qwen3-8B", 8.19, 7.57),
        ("Qwen3-Next-80B-A3B", 79.7, 3.57),
        ("Nemotron-H-8B", 8.101, 7.563),
        ("DeepSeek-V3", 671, 36.6),  # 37 with the embedding
        ("DeepSeek-V2-Lite", 15.7, 2.45),
    ],
)
def test_presets_have_the_published_parameter_counts(name, total, active):
    shape = PRESETS[name]
    assert shape.total_parameters / BILLION == pytest.approx(total, rel=0.005)
    assert shape.active_parameters / BILLION == pytest.approx(active, rel=0.01)


def test_gpt_oss_weights_take_the_published_checkpoint_size():
    assert PRESETS["gpt-oss-120b"].weight_bytes / 2**30 == pytest.approx(60.8, rel=0.005)


def test_a_page_of_the_seed_report_has_the_bytes_worked_out_by_hand():
    shape = PRESETS[DEFAULT_MODEL]
    full = shape.token_bytes(Component.FULL, tp=2, dtype=KvDtype.FP8_E4M3)
    swa = shape.token_bytes(Component.SWA, tp=2, dtype=KvDtype.FP8_E4M3)
    assert full == 10 * (4 // 2) * (512 + 512)
    assert swa == 50 * (16 // 2) * (256 + 256)


def test_a_state_has_the_bytes_worked_out_by_hand():
    qwen = PRESETS["Qwen3-Next-80B-A3B"].state_bytes(tp=2, dtype=StateDtype.FLOAT32)
    assert qwen == 36 * (16 * 128 * 128 * 4 + (8192 // 2) * 3 * 2)
    nemotron = PRESETS["Nemotron-H-8B"].state_bytes(tp=1, dtype=StateDtype.BFLOAT16)
    assert nemotron == 24 * (128 * 128 * 64 * 2 + 10240 * 3 * 2)


def test_a_state_takes_as_much_as_thousands_of_tokens_and_does_not_grow():
    shape = PRESETS["Qwen3-Next-80B-A3B"]
    assert shape.components == (Component.FULL, Component.MAMBA)
    token = shape.token_bytes(Component.FULL, tp=1, dtype=KvDtype.BF16)
    assert shape.state_bytes(tp=1, dtype=StateDtype.FLOAT32) > 3000 * token
    assert shape.token_bytes(Component.MAMBA, tp=1, dtype=KvDtype.BF16) == 0
    assert PRESETS["Qwen3-8B"].state_bytes(tp=1, dtype=StateDtype.FLOAT32) == 0


def test_latent_attention_keeps_one_row_of_a_token_whole_on_every_rank():
    shape = PRESETS["DeepSeek-V3"]
    for tp in (1, 8):
        assert shape.token_bytes(Component.FULL, tp=tp, dtype=KvDtype.BF16) == 61 * (512 + 64) * 2
    assert shape.full.buffers == 1


def test_latent_attention_computes_with_heads_in_a_prefill_and_with_rows_in_a_decode():
    full = PRESETS["DeepSeek-V3"].full
    assert full.prefill_operations(128) == 61 * 128 * 2 * (128 + 64 + 128)
    assert full.decode_operations(128) == 61 * 128 * 2 * (512 + 64 + 512)
    assert full.expand_operations(128) == 61 * 128 * 2 * 512 * (128 + 128)
    plain = PRESETS["Llama-3.1-8B"].full
    assert plain.decode_operations(32) == plain.prefill_operations(32) == 32 * 32 * 2 * (128 + 128)
    assert plain.expand_operations(32) == 0


def test_no_more_mlps_can_be_dense_than_there_are():
    with pytest.raises(ConfigError, match="62 dense MLPs of 61"):
        dataclasses.replace(PRESETS["DeepSeek-V3"], dense_mlps=62)


def test_sixteen_bits_take_twice_the_bytes_of_eight():
    shape = PRESETS["Qwen3-8B"]
    eight = shape.token_bytes(Component.FULL, tp=1, dtype=KvDtype.FP8_E5M2)
    for dtype in (KvDtype.AUTO, KvDtype.BF16, KvDtype.FP16):
        assert shape.token_bytes(Component.FULL, tp=1, dtype=dtype) == 2 * eight


def test_every_rank_has_at_least_one_kv_head():
    shape = PRESETS[DEFAULT_MODEL]  # 4 KV heads in full layers
    four = shape.token_bytes(Component.FULL, tp=4, dtype=KvDtype.BF16)
    assert shape.token_bytes(Component.FULL, tp=32, dtype=KvDtype.BF16) == four


def test_an_absent_component_takes_no_bytes():
    assert PRESETS["Qwen3-8B"].components == (Component.FULL,)
    assert PRESETS["Qwen3-8B"].token_bytes(Component.SWA, tp=1, dtype=KvDtype.BF16) == 0


def test_tp_must_divide_the_query_heads():
    PRESETS["Qwen3-8B"].check_tp(8)
    with pytest.raises(ConfigError, match=r"use one of 1, 2, 4, 8, 16, 32"):
        PRESETS["Qwen3-8B"].check_tp(3)


def test_long_names_of_kv_types_are_known_and_others_are_not():
    assert KvDtype("bfloat16") is KvDtype.BF16
    assert KvDtype("float16") is KvDtype.FP16
    with pytest.raises(ValueError, match="int4"):
        KvDtype("int4")


@pytest.mark.parametrize(
    "name",
    ["gemma-4-31B-it", "google/gemma-4-31b-it", "GOOGLE/Gemma-4-31B"],
)
def test_a_preset_is_found_with_its_owner_and_in_any_case(name):
    assert load_shape(name) is PRESETS[DEFAULT_MODEL]


def test_an_instruct_model_has_the_shape_of_its_base():
    assert load_shape("meta-llama/Llama-3.1-8B-Instruct") is PRESETS["Llama-3.1-8B"]


def test_an_unknown_model_is_refused_with_the_choices():
    with pytest.raises(ConfigError, match=r"gemma-4-31B-it, gpt-oss-120b.*config\.json") as refusal:
        load_shape("nobody/nothing")
    assert "\n" not in str(refusal.value)


def test_every_preset_says_where_its_numbers_come_from():
    assert all(shape.source for shape in PRESETS.values())
    assert all(shape.check_tp(2) is None for shape in PRESETS.values())
