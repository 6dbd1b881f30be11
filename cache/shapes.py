"""Model shapes by name: presets with their sources, or a Hugging Face `config.json` by path.

Each preset says where its numbers come from; its parameter count reproduces the published one.
"""

from pathlib import Path

from cache.config import ConfigError
from cache.hf_config import read_shape
from cache.model import AttentionShape, KvDtype, Latent, ModelShape, RecurrentShape, StateDtype

__all__ = [
    "DEFAULT_MODEL",
    "PRESETS",
    "AttentionShape",
    "KvDtype",
    "Latent",
    "ModelShape",
    "RecurrentShape",
    "StateDtype",
    "load_shape",
]

DEFAULT_MODEL = "gemma-4-31B-it"

# The three that --compute model runs: all kinds of layers, two, and one.
_TINY_ATTENTION = AttentionShape(layers=2, kv_heads=2, key_dim=16, value_dim=16)
_TINY_RECURRENT = RecurrentShape(
    layers=2,
    heads=4,
    key_dim=16,
    value_dim=16,
    conv_channels=0,
    conv_width=1,
    projected=4 * (2 * 16 + 2 * 16 + 2),
)

_PRESETS = (
    ModelShape(
        name=DEFAULT_MODEL,
        # 60 layers in ten groups of five sliding and one full; read in copies of that file, the
        # head counts also in github.com/labscommunity/cascadia/pull/72. 30.7 B parameters, text.
        source="https://huggingface.co/google/gemma-4-31B-it/blob/main/config.json",
        hidden_size=5376,
        query_heads=32,
        full=AttentionShape(
            layers=10, kv_heads=4, key_dim=512, value_dim=512, values_from_keys=True
        ),
        swa=AttentionShape(layers=50, kv_heads=16, key_dim=256, value_dim=256),
        window=1024,
        intermediate_size=21504,
        vocab_size=262144,
        max_context=262144,
        tied_embeddings=True,
    ),
    ModelShape(
        name="gpt-oss-120b",
        # Layers alternate, sliding first. Experts are MXFP4: 4 bits and an 8-bit scale for each
        # 32 weights. 116.8 B parameters, 5.1 B active, a checkpoint of 60.8 GiB.
        source="https://huggingface.co/openai/gpt-oss-120b/blob/main/config.json",
        hidden_size=2880,
        query_heads=64,
        full=AttentionShape(layers=18, kv_heads=8, key_dim=64, value_dim=64),
        swa=AttentionShape(layers=18, kv_heads=8, key_dim=64, value_dim=64),
        window=128,
        experts=128,
        experts_active=4,
        expert_size=2880,
        vocab_size=201088,
        max_context=131072,
        expert_bits=4.25,
    ),
    ModelShape(
        name="Llama-3.1-8B",
        source="https://huggingface.co/meta-llama/Llama-3.1-8B/blob/main/config.json",
        hidden_size=4096,
        query_heads=32,
        full=AttentionShape(layers=32, kv_heads=8, key_dim=128, value_dim=128),
        intermediate_size=14336,
        vocab_size=128256,
        max_context=131072,
    ),
    ModelShape(
        name="Qwen3-8B",
        source="https://huggingface.co/Qwen/Qwen3-8B/blob/main/config.json",
        hidden_size=4096,
        query_heads=32,
        full=AttentionShape(layers=36, kv_heads=8, key_dim=128, value_dim=128),
        intermediate_size=12288,
        vocab_size=151936,
        max_context=40960,
    ),
    ModelShape(
        name="Qwen3-Next-80B-A3B",
        # 48 layers, every fourth full attention with a gate, the others gated delta nets: 16 heads
        # for keys and 32 for values, 128 wide, a convolution of 4 over all of them. The input
        # projections give queries, keys, values and a gate, and two numbers a head. 79.7 B
        # parameters, 3.6 B of them active ("80B", "A3B").
        source="https://huggingface.co/Qwen/Qwen3-Next-80B-A3B-Instruct/blob/main/config.json",
        hidden_size=2048,
        query_heads=16,
        full=AttentionShape(layers=12, kv_heads=2, key_dim=256, value_dim=256, gated=True),
        recurrent=RecurrentShape(
            layers=36,
            heads=32,
            key_dim=128,
            value_dim=128,
            conv_channels=2 * 16 * 128 + 32 * 128,
            conv_width=4,
            projected=2 * 16 * 128 + 2 * 32 * 128 + 2 * 32,
        ),
        intermediate_size=512,
        experts=512,
        experts_active=10,
        expert_size=512,
        vocab_size=151936,
        max_context=262144,
    ),
    ModelShape(
        name="Nemotron-H-8B",
        # 52 layers of one part each: 24 Mamba-2, 24 MLPs of two matrices, 4 attention. Of Mamba-2
        # 128 heads of 64 with 128 states, 8 groups, a convolution of 4 over inputs and groups. The
        # input projection gives a gate, inputs, both groups' and one number a head.
        # 8,100,852,736 parameters.
        source="https://huggingface.co/nvidia/Nemotron-H-8B-Base-8K/blob/main/config.json",
        hidden_size=4096,
        query_heads=32,
        full=AttentionShape(layers=4, kv_heads=8, key_dim=128, value_dim=128),
        recurrent=RecurrentShape(
            layers=24,
            heads=128,
            key_dim=128,
            value_dim=64,
            conv_channels=128 * 64 + 2 * 8 * 128,
            conv_width=4,
            projected=2 * 128 * 64 + 2 * 8 * 128 + 128,
        ),
        intermediate_size=21504,
        mlp_layers=24,
        mlp_matrices=2,
        vocab_size=131072,
        max_context=8192,
    ),
    ModelShape(
        name="DeepSeek-V3",
        # 61 layers of latent attention, the first three with a dense MLP, the others with one
        # shared expert (here the dense part) and 256, 8 of them active. fp8 weights. 671 B
        # parameters, 37 B active with the embedding; the layer that predicts ahead is left out.
        source="https://huggingface.co/deepseek-ai/DeepSeek-V3/blob/main/config.json",
        hidden_size=7168,
        query_heads=128,
        full=AttentionShape(
            layers=61,
            kv_heads=1,
            key_dim=512 + 64,
            value_dim=0,
            latent=Latent(rank=512, plain_dim=128, value_dim=128, query_rank=1536),
        ),
        intermediate_size=2048,
        experts=256,
        experts_active=8,
        expert_size=2048,
        dense_mlps=3,
        dense_size=18432,
        vocab_size=129280,
        max_context=163840,
        weight_bits=8,
        expert_bits=8,
    ),
    ModelShape(
        name="DeepSeek-V2-Lite",
        # 27 layers, the first with a dense MLP, the others with two shared experts and 64, 6 of
        # them active. 15.7 B parameters, 2.4 B active without embedding and head.
        source="https://huggingface.co/deepseek-ai/DeepSeek-V2-Lite/blob/main/config.json",
        hidden_size=2048,
        query_heads=16,
        full=AttentionShape(
            layers=27,
            kv_heads=1,
            key_dim=512 + 64,
            value_dim=0,
            latent=Latent(rank=512, plain_dim=128, value_dim=128),
        ),
        intermediate_size=2 * 1408,
        experts=64,
        experts_active=6,
        expert_size=1408,
        dense_mlps=1,
        dense_size=10944,
        vocab_size=102400,
        max_context=163840,
    ),
    ModelShape(
        name="tiny",
        source="made up here: both kinds of layers, small enough for a laptop",
        hidden_size=256,
        query_heads=8,
        full=AttentionShape(layers=2, kv_heads=2, key_dim=32, value_dim=32),
        swa=AttentionShape(layers=2, kv_heads=2, key_dim=32, value_dim=32),
        window=128,
        intermediate_size=1024,
        vocab_size=32000,
        max_context=32768,
        tied_embeddings=True,
    ),
    *(
        ModelShape(
            name=name,
            source="made up here: small enough to be computed for real on a CPU",
            hidden_size=64,
            query_heads=4,
            full=_TINY_ATTENTION,
            swa=_TINY_ATTENTION if window else None,
            window=window,
            recurrent=recurrent,
            intermediate_size=128,
            vocab_size=512,
            max_context=32768,
            tied_embeddings=True,
        )
        for name, window, recurrent in (
            ("tiny-hybrid", 128, _TINY_RECURRENT),
            ("tiny-swa", 128, None),
            ("tiny-full", 0, None),
        )
    ),
)

PRESETS = {shape.name: shape for shape in _PRESETS}

# Names of checkpoints that have the shape of a preset.
_SAME_SHAPE = {
    "gemma-4-31b": DEFAULT_MODEL,
    "llama-3.1-8b-instruct": "Llama-3.1-8B",
    "meta-llama-3.1-8b": "Llama-3.1-8B",
    "meta-llama-3.1-8b-instruct": "Llama-3.1-8B",
    "qwen3-8b-base": "Qwen3-8B",
    "qwen3-next-80b-a3b-instruct": "Qwen3-Next-80B-A3B",
    "qwen3-next-80b-a3b-thinking": "Qwen3-Next-80B-A3B",
    "nemotron-h-8b-base-8k": "Nemotron-H-8B",
    "deepseek-v3-base": "DeepSeek-V3",
    "deepseek-v3-0324": "DeepSeek-V3",
    "deepseek-r1": "DeepSeek-V3",
    "deepseek-r1-0528": "DeepSeek-V3",
    "deepseek-v3.1": "DeepSeek-V3",
    "deepseek-v2-lite-chat": "DeepSeek-V2-Lite",
    "deepseek-coder-v2-lite-instruct": "DeepSeek-V2-Lite",
}


def load_shape(name_or_path: str) -> ModelShape:
    """The shape of a preset (with or without its owner, in any case), or of a `config.json`.

    A path is that file or the folder that holds it. Raises `ConfigError`.
    """
    path = Path(name_or_path).expanduser()
    if path.is_file() or (path / "config.json").is_file():
        return read_shape(path if path.is_file() else path / "config.json")
    name = name_or_path.rstrip("/").rpartition("/")[2].lower()
    known = {preset.lower(): preset for preset in PRESETS} | _SAME_SHAPE
    if name not in known:
        raise ConfigError(
            f"no model {name_or_path!r}: choose --model {', '.join(PRESETS)},"
            " or give the path of a config.json"
        )
    return PRESETS[known[name]]
