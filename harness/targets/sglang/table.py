"""The one table of stand-ins: what a release imports on the way to its cache and never runs there.

A stand-in answers every name with an empty class that is false, so an absent feature is off.
Whatever is not named here is the release's own code or an installed package.
"""

from typing import Any

# Packages from PyPI that a wheel asks for, none of which the cache or the scheduler calls.
PACKAGES = frozenset(
    (
        "IPython",
        "PIL",
        "aiohttp",
        "apache_tvm_ffi",
        "compressed_tensors",
        "dill",
        "einops",
        "fastapi",
        "gguf",
        "hf_transfer",
        "huggingface_hub",
        "interegular",
        "llguidance",
        "openai",
        "orjson",
        "outlines",
        "partial_json_parser",
        "prometheus_client",
        "pybase64",
        "pydantic",
        "pydantic_core",
        "pynvml",
        "requests",
        "safetensors",
        "sentencepiece",
        "setproctitle",
        "sgl_kernel",
        "soundfile",
        "starlette",
        "torchada",
        "torchao",
        "torchvision",
        "tqdm",
        "transformers",
        "triton",
        "tvm_ffi",
        "uvicorn",
        "uvloop",
        "xgrammar",
        "yaml",
        "zmq",
    )
)

# Packages that are really used from 0.5.15 on: their wheels are unpacked beside the releases.
NEEDED = ("msgspec==0.23.0",)

# Parts of needed packages that only put messages on the wire between processes.
WIRE = {"msgspec.msgpack": ("Decoder", "Encoder")}

# Parts of the wheel itself: models, kernels, parsers, the HTTP server. Relative to `sglang`.
PARTS = frozenset(
    (
        "kernels.ops.attention",
        "srt.compilation",
        "srt.configs",
        "srt.connector",
        "srt.constrained",
        "srt.entrypoints",
        "srt.eplb",
        "srt.function_call",
        "srt.layers",
        "srt.lora",
        "srt.model_executor",
        "srt.model_loader",
        "srt.multimodal",
        "srt.parser",
        "srt.utils.hf_transformers",
        "srt.utils.hf_transformers_utils",
        "srt.weight_sync",
    )
)

# Inside those parts, modules that the scheduler or the cache does use: the release's own.
KEPT = frozenset(
    (
        "srt.configs.mamba_utils",
        "srt.layers.dp_attention",
        "srt.configs.model_config",
        "srt.model_executor.forward_batch_deepseek_mha_mixin",
        "srt.model_executor.forward_batch_info",
    )
)

# Packages whose own `__init__` pulls in a whole server; their modules stay the release's own.
BARE = frozenset({""})

# Constants of stood-in modules that are read as numbers.
VALUES: dict[str, dict[str, Any]] = {
    "kernels.ops.attention.fla.chunk_delta_h": {"CHUNK_SIZE": 64},
    "srt.layers.attention.fla.chunk_delta_h": {"CHUNK_SIZE": 64},
}
