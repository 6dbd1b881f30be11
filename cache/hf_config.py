"""Reads a model's shape from a Hugging Face `config.json`.

Understands decoders with full, sliding-window and latent attention and recurrent layers (gated
delta nets, Mamba-2), dense or with experts, in all layers but the first few or those listed.
Invariant: what the cache cannot hold (other recurrences, layers without a cache of their own) and
what attends in another way is refused, never silently taken for something else.
"""

import json
from pathlib import Path
from typing import Any, NoReturn

from cache.config import ConfigError
from cache.model import AttentionShape, Latent, ModelShape, RecurrentShape

Json = dict[str, Any]

SLIDING, FULL = "sliding_attention", "full_attention"
DELTA_NET, MAMBA_2, MLP = "linear_attention", "mamba", "mlp"
LETTERS = {"M": MAMBA_2, "*": FULL, "-": MLP}  # of Nemotron-H's pattern: layers of one part each
EVERY_NTH_FULL = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "gpt_oss": 2}
MXFP4_BITS = 4.25  # 4 bits and an 8-bit scale for each 32 weights
# Those of which every layer keeps one latent row of a token, and nothing else.
LATENT_FAMILIES = ("deepseek_v2", "deepseek_v3", "kimi_k2")
EIGHT_BITS = ("fp8", "fbgemm_fp8")


def read_shape(path: Path) -> ModelShape:
    """The shape that a `config.json` describes. Raises `ConfigError`, in one line."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as JSON ({error}); give a config.json") from None
    if not isinstance(config, dict):
        raise ConfigError(f"{path}: holds no JSON object; give a model's config.json")
    return _Reader(path, config).shape()


class _Reader:
    """One config file; remembers its path for the messages."""

    def __init__(self, path: Path, config: Json) -> None:
        self.path = path
        nested = config.get("text_config")
        self.config: Json = {**config, **nested} if isinstance(nested, dict) else config

    def shape(self) -> ModelShape:
        self._refuse_other_caches()
        kinds = self._layer_kinds()
        sliding = [index for index, kind in enumerate(kinds) if kind == SLIDING]
        full = [index for index, kind in enumerate(kinds) if kind == FULL]
        if not full:
            self._fail("no layer has full attention; a model needs one")
        weight_bits, expert_bits = self._bits()
        dense, experts, active, width = self._mlp()
        dense_mlps = self._dense_mlps() if experts else 0
        return ModelShape(
            name=self._name(),
            source=str(self.path),
            hidden_size=self._number("hidden_size"),
            query_heads=self._number("num_attention_heads"),
            full=self._attention(full, "global_head_dim", "num_global_key_value_heads"),
            swa=self._attention(sliding, "swa_head_dim", "swa_num_key_value_heads")
            if sliding
            else None,
            window=self._number("sliding_window") if sliding else 0,
            intermediate_size=dense,
            experts=experts,
            experts_active=active,
            expert_size=width,
            vocab_size=self._number("vocab_size"),
            max_context=self._number("max_position_embeddings"),
            tied_embeddings=bool(
                self.config.get("tie_word_embeddings", self._family().startswith("gemma"))
            ),
            weight_bits=weight_bits,
            expert_bits=expert_bits,
            recurrent=self._recurrent(kinds),
            dense_mlps=dense_mlps,
            dense_size=self._number("intermediate_size") if dense_mlps else 0,
            mlp_layers=kinds.count(MLP),
            mlp_matrices=2 if MLP in kinds else 3,  # Nemotron-H squares a ReLU and has no gate
        )

    def _refuse_other_caches(self) -> None:
        if self.config.get("index_topk"):
            self._fail(
                "attention to chosen tokens (index_topk) is not supported; DeepSeek-V3 with"
                " --companions indexer has the same cache"
            )
        if self.config.get("kv_lora_rank") and self._family() not in LATENT_FAMILIES:
            self._fail(
                f"latent attention (kv_lora_rank) of model_type {self._family()!r} is not known,"
                f" only that of {', '.join(LATENT_FAMILIES)}"
            )
        if self.config.get("num_kv_shared_layers"):
            self._fail(
                "layers that share another layer's KV (num_kv_shared_layers) are not supported"
            )

    def _layer_kinds(self) -> list[str]:
        """The kind of each layer, from what the config says or from its family's rule."""
        layers = self._number("num_hidden_layers")
        listed = self.config.get("layer_types")
        if listed:
            return self._listed_kinds(listed, layers)
        if pattern := self.config.get("hybrid_override_pattern"):
            return self._listed_kinds([LETTERS.get(letter, letter) for letter in pattern], layers)
        if every := self.config.get("full_attention_interval"):
            return [DELTA_NET if (index + 1) % int(every) else FULL for index in range(layers)]
        slides = self.config.get("use_sliding_window", True) and self.config.get("sliding_window")
        if not slides:
            return [FULL] * layers
        period = (
            self.config.get("sliding_window_pattern")
            or self.config.get("_sliding_window_pattern")
            or EVERY_NTH_FULL.get(self._family())
        )
        if period:
            return [SLIDING if (index + 1) % int(period) else FULL for index in range(layers)]
        first = self.config.get("max_window_layers", 0)
        return [FULL if index < first else SLIDING for index in range(layers)]

    def _listed_kinds(self, listed: Any, layers: int) -> list[str]:
        if not isinstance(listed, list) or len(listed) != layers:
            self._fail(f"layer_types must list {layers} layers (num_hidden_layers)")
        for kind in listed:
            if kind not in (SLIDING, FULL, DELTA_NET, *LETTERS.values()):
                self._fail(f"layers of type {kind!r} are not supported")
        return [str(kind) for kind in listed]

    def _attention(self, layers: list[int], dim_key: str, heads_key: str) -> AttentionShape:
        """One kind of layers; its own keys win over the common ones."""
        is_full = dim_key == "global_head_dim"
        if rank := self._first("kv_lora_rank"):
            return self._latents(len(layers), rank)
        dim = self._per_layer(layers, "head_dim") or self.config.get(dim_key) or self._head_dim()
        heads = (
            self._per_layer(layers, "num_key_value_heads")
            or self.config.get(heads_key)
            or self.config.get("num_key_value_heads")
            or self._number("num_attention_heads")
        )
        value_dim = self.config.get("v_head_dim" if is_full else "swa_v_head_dim")
        return AttentionShape(
            layers=len(layers),
            kv_heads=int(heads),
            key_dim=int(dim),
            value_dim=int(value_dim or dim),
            values_from_keys=is_full and bool(self.config.get("attention_k_eq_v")),
            gated=self._family() == "qwen3_next" or bool(self.config.get("attn_output_gate")),
        )

    def _latents(self, layers: int, rank: int) -> AttentionShape:
        """What is kept of a token is one row, for all heads and on every rank."""
        latent = Latent(
            rank=rank,
            plain_dim=self._number("qk_nope_head_dim"),
            value_dim=self._number("v_head_dim"),
            query_rank=self._first("q_lora_rank"),
        )
        row = rank + self._number("qk_rope_head_dim")
        return AttentionShape(layers, kv_heads=1, key_dim=row, value_dim=0, latent=latent)

    def _recurrent(self, kinds: list[str]) -> RecurrentShape | None:
        """The recurrent layers; None where there are none."""
        if MAMBA_2 in kinds:
            return self._mamba_2(kinds.count(MAMBA_2))
        return self._delta_nets(kinds.count(DELTA_NET)) if DELTA_NET in kinds else None

    def _delta_nets(self, layers: int) -> RecurrentShape:
        """Projected: queries and keys, values and a gate, and two numbers a head."""
        heads, key_dim = self._number("linear_num_value_heads"), self._number("linear_key_head_dim")
        value_dim = self._number("linear_value_head_dim")
        keys, values = self._number("linear_num_key_heads") * key_dim, heads * value_dim
        return RecurrentShape(
            layers=layers,
            heads=heads,
            key_dim=key_dim,
            value_dim=value_dim,
            conv_channels=2 * keys + values,
            conv_width=self._number("linear_conv_kernel_dim"),
            projected=2 * keys + 2 * values + 2 * heads,
        )

    def _mamba_2(self, layers: int) -> RecurrentShape:
        """Projected: inputs and a gate, what goes into and out of the groups' states, and a number
        a head."""
        heads, states = self._number("mamba_num_heads"), self._number("ssm_state_size")
        inputs = heads * self._number("mamba_head_dim")
        groups = 2 * self._number("n_groups") * states
        return RecurrentShape(
            layers=layers,
            heads=heads,
            key_dim=states,
            value_dim=self._number("mamba_head_dim"),
            conv_channels=inputs + groups,
            conv_width=self._number("conv_kernel"),
            projected=2 * inputs + groups + heads,
        )

    def _head_dim(self) -> int:
        if given := self._first("head_dim", "attention_head_dim"):
            return given
        return self._number("hidden_size") // self._number("num_attention_heads")

    def _per_layer(self, layers: list[int], key: str) -> int | None:
        """What `per_layer_config` overrides for all these layers; None where it says nothing."""
        overrides = self.config.get("per_layer_config")
        if not isinstance(overrides, dict) or not layers:
            return None
        rows = {int(index): row for index, row in overrides.items() if str(index).isdecimal()}
        found = [(rows.get(index) or {}).get(key) for index in layers]
        if any(value != found[0] for value in found):
            self._fail(f"layers of one kind differ in {key} (per_layer_config)")
        value: int | None = found[0]
        return value

    def _mlp(self) -> tuple[int, int, int, int]:
        """(dense width, experts, active experts, width of an expert)."""
        experts = self._first("num_local_experts", "num_experts", "n_routed_experts")
        if not experts:
            return self._number("intermediate_size"), 0, 0, 0
        active = self._first("num_experts_per_tok", "experts_per_token", "top_k_experts")
        if not active:
            self._fail("num_experts_per_tok is missing")
        width = self._first("moe_intermediate_size") or self._number("intermediate_size")
        shared = self._first("shared_expert_intermediate_size")
        shared = shared or self._first("n_shared_experts") * width
        if self.config.get("enable_moe_block"):  # a dense MLP beside the experts in every layer
            shared = self._number("intermediate_size")
        return shared, experts, active, width

    def _dense_mlps(self) -> int:
        """MLPs without experts in a model that has some: the first ones, or those listed."""
        if (
            self.config.get("moe_layer_freq", 1) != 1
            or self.config.get("decoder_sparse_step", 1) != 1
        ):
            self._fail("experts in every other layer are not supported")
        listed = self.config.get("mlp_only_layers") or []
        return self._first("first_k_dense_replace") or len(listed)

    def _bits(self) -> tuple[float, float]:
        """Bits of a weight: (of all but experts, of experts)."""
        quantization = self.config.get("quantization_config")
        if not quantization:
            return 16, 16
        method = quantization.get("quant_method")
        if method == "mxfp4":
            return 16, MXFP4_BITS
        if method in EIGHT_BITS:
            return 8, 8
        if isinstance(quantization.get("bits"), int):
            return quantization["bits"], quantization["bits"]
        self._fail(f"quantization {method!r} is not known; remove quantization_config for 16 bits")

    def _family(self) -> str:
        return str(self.config.get("model_type", ""))

    def _name(self) -> str:
        given = str(self.config.get("_name_or_path") or "").rstrip("/").rpartition("/")[2]
        return given or self.path.resolve().parent.name

    def _first(self, *keys: str) -> int:
        """The number under the first key that is there; 0 where none is."""
        return next((self._number(key) for key in keys if self.config.get(key)), 0)

    def _number(self, key: str) -> int:
        value = self.config.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self._fail(f"{key} must be a whole number from 1, not {value!r}")
        return value

    def _fail(self, what: str) -> NoReturn:
        raise ConfigError(f"{self.path}: {what}; give another --model")
