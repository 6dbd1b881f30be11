"""Companions that real servers keep beside pages and states, by name, with their bytes.

    scales    fp8 KV with a float32 scale for each row of K and of V (a token's KV head), as in
              github.com/FlashML-org/FreeToken/pull/408; inside the page's own object in storage.
    indexer   the keys by which sparse attention chooses tokens, as in DeepSeek-V3.2-Exp: 128 fp8
              elements and a float32 scale for each token and full-attention layer, whole on every
              rank (huggingface.co/deepseek-ai/DeepSeek-V3.2-Exp: index_head_dim 128; the layout of
              132 bytes: bench.flashinfer.ai, dsa_topk_indexer_fp8_h64_d128_topk2048_ps64). SGLang
              keeps them under the page's slot numbers and as an object of their own in storage.
    draft     the KV of an EAGLE-3 draft head, which is one layer like those of the model
              (huggingface.co/yuhuili/EAGLE3-LLaMA3.1-Instruct-8B). Here in pools of its own, of as
              many slots: an assumption, for a draft model that has its own allocator.
    side      what lies beside a recurrent state and is none of its layers': a convolution window of
              10,240 x 9 16-bit elements and two 64-bit tokens, as github.com/sgl-project/sglang
              pull 39862 says of Qwen4-Exp; counted whole on every rank.

Invariant: a model has a companion only if it has what the companion belongs to.
"""

from cache.config import FULL, MAMBA, SWA, Companion, Component, ConfigError
from cache.model import AttentionShape, KvDtype, ModelShape

SCALE_BYTES = 4
INDEX_KEY_BYTES = 128 + SCALE_BYTES
SIDE_BYTES = 10_240 * 9 * 2 + 2 * 8
NAMES = ("scales", "indexer", "draft", "side")
OWN_POOLS = ("draft",)


def sidecars(
    names: tuple[str, ...],
    shape: ModelShape,
    components: tuple[Component, ...],
    *,
    tp: int,
    page_size: int,
    kv_dtype: KvDtype,
) -> tuple[Companion, ...]:
    """Those of `names` for a model's pages and states on one rank, still without pools of their
    own. Raises `ConfigError` for a name that is not known or has nothing to belong to."""
    found: list[Companion] = []
    layers = shape.attention_layers if SWA not in components else shape.full.layers
    for name in names:
        match name:
            case "scales":
                found += _scales(shape, components, tp, page_size, kv_dtype)
            case "indexer":
                keys = page_size * layers * INDEX_KEY_BYTES
                found.append(Companion(name, FULL, keys, apart=True))
            case "draft":
                layer = shape.full.token_bytes(tp=tp, dtype=kv_dtype) // shape.full.layers
                found.append(Companion(name, FULL, page_size * layer, apart=True))
            case "side":
                if MAMBA not in components:
                    raise ConfigError(
                        f"{shape.name} has no recurrent states for a side state to belong to:"
                        " leave side out of --companions"
                    )
                found.append(Companion(name, MAMBA, SIDE_BYTES))
            case _:
                raise ConfigError(f"--companions {name!r} is not known: use {', '.join(NAMES)}")
    return tuple(found)


def _scales(
    shape: ModelShape,
    components: tuple[Component, ...],
    tp: int,
    page_size: int,
    kv_dtype: KvDtype,
) -> list[Companion]:
    if kv_dtype.size_bytes != 1:
        raise ConfigError(
            f"KV in {kv_dtype} needs no scales: add --kv-cache-dtype fp8_e4m3, or leave scales out"
            " of --companions"
        )
    if shape.full.latent is not None:
        raise ConfigError(
            f"{shape.name} keeps no rows of K and of V for scales to belong to: leave scales out of"
            " --companions"
        )
    full = page_size * _rows(shape.full, tp) * SCALE_BYTES
    window = page_size * _rows(shape.swa, tp) * SCALE_BYTES if shape.swa is not None else 0
    if SWA in components:
        return [Companion("scales", FULL, full), Companion("window_scales", SWA, window)]
    return [Companion("scales", FULL, full + window)]


def _rows(kind: AttentionShape, tp: int) -> int:
    """Rows of K and of V that one token has over all layers of a kind, on one rank."""
    return 2 * kind.layers * max(1, kind.kv_heads // tp)
