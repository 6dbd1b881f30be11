"""Reading a Hugging Face config.json: the families' ways to say the same, and what is refused."""

import dataclasses
import json

import pytest

from cache.config import ConfigError
from cache.shapes import PRESETS, load_shape

QWEN3_8B = {
    "model_type": "qwen3",
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "max_position_embeddings": 40960,
    "max_window_layers": 36,
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
GPT_OSS_120B = {
    "model_type": "gpt_oss",
    "head_dim": 64,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "max_position_embeddings": 131072,
    "num_attention_heads": 64,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "num_local_experts": 128,
    "quantization_config": {"quant_method": "mxfp4"},
    "sliding_window": 128,
    "tie_word_embeddings": False,
    "vocab_size": 201088,
}
QWEN3_NEXT = {
    "model_type": "qwen3_next",
    "full_attention_interval": 4,
    "head_dim": 256,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "max_position_embeddings": 262144,
    "moe_intermediate_size": 512,
    "num_attention_heads": 16,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "num_hidden_layers": 48,
    "num_key_value_heads": 2,
    "shared_expert_intermediate_size": 512,
    "tie_word_embeddings": False,
    "vocab_size": 151936,
}
NEMOTRON_H = {
    "model_type": "nemotron_h",
    "attention_head_dim": 128,
    "conv_kernel": 4,
    "hidden_size": 4096,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "intermediate_size": 21504,
    "mamba_head_dim": 64,
    "mamba_num_heads": 128,
    "max_position_embeddings": 8192,
    "n_groups": 8,
    "num_attention_heads": 32,
    "num_hidden_layers": 52,
    "num_key_value_heads": 8,
    "ssm_state_size": 128,
    "vocab_size": 131072,
}
GEMMA_4_31B = {
    "model_type": "gemma4",
    "text_config": {
        "model_type": "gemma4_text",
        "attention_k_eq_v": True,
        "enable_moe_block": False,
        "global_head_dim": 512,
        "head_dim": 256,
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
        "max_position_embeddings": 262144,
        "num_attention_heads": 32,
        "num_global_key_value_heads": 4,
        "num_hidden_layers": 60,
        "num_key_value_heads": 16,
        "num_kv_shared_layers": 0,
        "sliding_window": 1024,
        "tie_word_embeddings": True,
        "vocab_size": 262144,
    },
}
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "tie_word_embeddings": False,
    "v_head_dim": 128,
    "vocab_size": 129280,
}


@pytest.fixture
def read(tmp_path):
    def shape_of(config):
        path = tmp_path / "config.json"
        path.write_text(config if isinstance(config, str) else json.dumps(config))
        return load_shape(str(path))

    return shape_of


def _numbers(shape):
    return {**dataclasses.asdict(shape), "name": "", "source": ""}


@pytest.mark.parametrize(
    ("config", "preset"),
    [
        (QWEN3_8B, "Qwen3-8B"),
        (GPT_OSS_120B, "gpt-oss-120b"),
        (GEMMA_4_31B, "gemma-4-31B-it"),
        (QWEN3_NEXT, "Qwen3-Next-80B-A3B"),
        (NEMOTRON_H, "Nemotron-H-8B"),
        (DEEPSEEK_V3, "DeepSeek-V3"),
    ],
)
def test_a_config_file_gives_the_same_shape_as_the_preset(read, config, preset):
    assert _numbers(read(config)) == _numbers(PRESETS[preset])


def test_a_folder_is_read_and_gives_the_name(tmp_path):
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(QWEN3_8B))
    assert load_shape(str(folder)).name == "my-model"
    assert load_shape(str(folder)).source.endswith("config.json")


def test_head_dim_and_kv_heads_default_to_those_of_the_queries(read):
    bare = {k: v for k, v in QWEN3_8B.items() if k not in ("head_dim", "num_key_value_heads")}
    shape = read({**bare, "model_type": "llama"})
    assert (shape.full.kv_heads, shape.full.key_dim) == (32, 128)


def test_a_pattern_makes_every_nth_layer_full(read):
    shape = read({**QWEN3_8B, "use_sliding_window": True, "sliding_window": 512,
                  "sliding_window_pattern": 6})  # fmt: skip
    assert (shape.full.layers, shape.swa.layers, shape.window) == (6, 30, 512)


def test_gemma_families_have_their_pattern_without_saying_so(read):
    base = {**QWEN3_8B, "sliding_window": 4096, "use_sliding_window": True}
    assert read({**base, "model_type": "gemma2"}).full.layers == 18
    assert read({**base, "model_type": "gemma3_text"}).full.layers == 6


def test_layers_below_max_window_layers_are_full(read):
    shape = read({**QWEN3_8B, "use_sliding_window": True, "sliding_window": 512,
                  "max_window_layers": 28})  # fmt: skip
    assert (shape.full.layers, shape.swa.layers) == (28, 8)


def test_a_window_that_is_switched_off_does_not_count(read):
    assert read({**QWEN3_8B, "sliding_window": 4096}).swa is None


def test_per_layer_overrides_stand_in_for_the_global_keys(read):
    text = dict(GEMMA_4_31B["text_config"])
    del text["global_head_dim"], text["num_global_key_value_heads"]
    text["per_layer_config"] = {
        str(index): {"head_dim": 512, "num_key_value_heads": 4}
        for index in range(60)
        if index % 6 == 5
    }
    shape = read({"text_config": text})
    assert _numbers(shape) == _numbers(PRESETS["gemma-4-31B-it"])


def test_experts_may_have_a_width_of_their_own_and_a_shared_one(read):
    shape = read({**QWEN3_8B, "num_experts": 64, "num_experts_per_tok": 8,
                  "moe_intermediate_size": 768, "n_shared_experts": 2})  # fmt: skip
    assert (shape.experts, shape.experts_active, shape.expert_size) == (64, 8, 768)
    assert shape.intermediate_size == 2 * 768


def test_a_dense_block_beside_the_experts_keeps_its_width(read):
    shape = read({**QWEN3_8B, "num_experts": 128, "top_k_experts": 8,
                  "moe_intermediate_size": 704, "enable_moe_block": True})  # fmt: skip
    assert shape.intermediate_size == QWEN3_8B["intermediate_size"]


def test_queries_of_latent_attention_may_be_projected_straight(read):
    latent = read({**DEEPSEEK_V3, "q_lora_rank": None}).full.latent
    assert latent.query_rank == 0


def test_dense_layers_among_those_with_experts_may_be_the_first_or_listed(read):
    moe = {**QWEN3_8B, "num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 768}
    for given in ({"first_k_dense_replace": 2}, {"mlp_only_layers": [5, 9]}):
        shape = read({**moe, **given})
        assert (shape.dense_mlps, shape.dense_size, shape.mixed_mlps) == (2, 12288, 34)
    assert read(moe).dense_mlps == 0


@pytest.mark.parametrize(
    ("quantization", "bits"),
    [({"quant_method": "fp8"}, (8, 8)), ({"quant_method": "awq", "bits": 4}, (4, 4))],
)
def test_quantised_weights_take_fewer_bits(read, quantization, bits):
    shape = read({**QWEN3_8B, "quantization_config": quantization})
    assert (shape.weight_bits, shape.expert_bits) == bits


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "no JSON object"),
        ({}, "num_hidden_layers must be a whole number"),
        ({**QWEN3_8B, "vocab_size": "many"}, "vocab_size must be a whole number"),
        ({**QWEN3_8B, "layer_types": ["full_attention"]}, "must list 36 layers"),
        ({**QWEN3_8B, "layer_types": ["sparse_attention"] * 36}, "'sparse_attention'"),
        ({**QWEN3_8B, "layer_types": ["sliding_attention"] * 36}, "no layer has full attention"),
        ({**QWEN3_NEXT, "linear_conv_kernel_dim": None}, "linear_conv_kernel_dim must be"),
        ({**NEMOTRON_H, "hybrid_override_pattern": "ME" * 26}, "'E'"),
        ({**QWEN3_8B, "kv_lora_rank": 512}, "latent attention"),
        ({**DEEPSEEK_V3, "model_type": "longcat_flash"}, "'longcat_flash' is not known"),
        ({**DEEPSEEK_V3, "qk_nope_head_dim": None}, "qk_nope_head_dim must be a whole number"),
        ({**DEEPSEEK_V3, "index_topk": 2048}, "--companions indexer"),
        ({**DEEPSEEK_V3, "moe_layer_freq": 2}, "experts in every other layer"),
        ({**QWEN3_8B, "num_kv_shared_layers": 20}, "num_kv_shared_layers"),
        ({**QWEN3_8B, "num_experts": 8}, "num_experts_per_tok is missing"),
        ({**QWEN3_8B, "quantization_config": {"quant_method": "new"}}, "'new'"),
        ({**QWEN3_8B, "per_layer_config": {"3": {"head_dim": 64}}}, "differ in head_dim"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(read, config, words):
    with pytest.raises(ConfigError) as refusal:
        read(config)
    assert words in str(refusal.value)
    assert "config.json" in str(refusal.value)
    assert "\n" not in str(refusal.value)
