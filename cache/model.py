"""The shape of a model, as far as a cache and its sizes care: layers by kind, heads, widths.

Layers come in three kinds: full and sliding-window attention, whose heads may differ, and recurrent
ones. Invariant: a page's bytes, a state's bytes and the weights' bytes follow from these numbers
alone, for any data type and any number of tensor-parallel ranks.
"""

import enum
from dataclasses import dataclass

from cache.config import COMPONENT_SETS, Component, ConfigError

EMBEDDING_BITS = 16  # embeddings and the output head stay at 16 bits in the quantised checkpoints
CONV_BYTES = 2  # an element of a convolution's past, whatever the state's own type


class KvDtype(enum.StrEnum):
    """What `--kv-cache-dtype` may say; `auto` is the model's own 16-bit type."""

    AUTO = "auto"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"
    BF16 = "bf16"
    FP16 = "fp16"

    @property
    def size_bytes(self) -> int:
        """Bytes of one element."""
        return 1 if self in (KvDtype.FP8_E4M3, KvDtype.FP8_E5M2) else 2

    @classmethod
    def _missing_(cls, value: object) -> "KvDtype | None":
        """The long names of the 16-bit types."""
        return {"bfloat16": cls.BF16, "float16": cls.FP16}.get(str(value))


@dataclass(frozen=True, slots=True)
class Latent:
    """What latent attention keeps of a token is one row for all heads (arXiv 2405.04434): `rank`
    elements that every head's key of `plain_dim` and value of `value_dim` are projected from, and a
    rotary key that all heads share. Queries come through `query_rank` elements, 0 for straight."""

    rank: int
    plain_dim: int
    value_dim: int
    query_rank: int = 0


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """The layers of one kind. `values_from_keys` saves the value projection's weights, no cache:
    keys are normalised and rotated after the projection, so both are stored. `gated` layers project
    a gate for their output beside the query. With `latent`, a token's row counts as the key of one
    head that has no value, and every rank keeps it whole."""

    layers: int
    kv_heads: int
    key_dim: int
    value_dim: int
    values_from_keys: bool = False
    gated: bool = False
    latent: Latent | None = None

    @property
    def buffers(self) -> int:
        """Regions that a page has in each layer: keys and values, or one for rows of both."""
        return 2 if self.latent is None else 1

    def token_bytes(self, *, tp: int, dtype: KvDtype) -> int:
        """Bytes that one token takes over all these layers, on one of `tp` ranks."""
        heads = max(1, self.kv_heads // tp)
        return self.layers * heads * (self.key_dim + self.value_dim) * dtype.size_bytes

    def weights(self, *, hidden_size: int, query_heads: int) -> int:
        """Parameters of the projections of all these layers."""
        if self.latent is not None:
            return self.layers * self._latent_weights(self.latent, hidden_size, query_heads)
        queries = query_heads * (self.key_dim + self.value_dim * (2 if self.gated else 1))
        values = 0 if self.values_from_keys else self.value_dim
        return self.layers * hidden_size * (queries + self.kv_heads * (self.key_dim + values))

    def prefill_operations(self, query_heads: float) -> float:
        """Operations of one new token for each that it attends to, over all these layers."""
        width = self.key_dim + self.value_dim
        if self.latent is not None:
            width = self._query_dim(self.latent) + self.latent.value_dim
        return 2 * query_heads * self.layers * width

    def decode_operations(self, query_heads: float) -> float:
        """The same in a decode, which computes with latent rows as they are stored: each is the
        key, and its latent part the value, of every head."""
        if self.latent is None:
            return self.prefill_operations(query_heads)
        return 2 * query_heads * self.layers * (self.key_dim + self.latent.rank)

    def expand_operations(self, query_heads: float) -> float:
        """Operations that a prefill makes the keys and values of one cached token with; 0 where
        they are stored."""
        if self.latent is None:
            return 0.0
        made = self.latent.plain_dim + self.latent.value_dim
        return 2 * query_heads * self.layers * self.latent.rank * made

    def _query_dim(self, latent: Latent) -> int:
        """Elements of one head's query: what is compared with its own key, and with the shared."""
        return latent.plain_dim + self.key_dim - latent.rank

    def _latent_weights(self, latent: Latent, hidden_size: int, heads: int) -> int:
        """Parameters of one layer: of queries, rows, what comes out of rows, and the output."""
        query = heads * self._query_dim(latent)
        through = latent.query_rank
        queries = through * (hidden_size + query) if through else hidden_size * query
        made = latent.rank * heads * (latent.plain_dim + latent.value_dim)
        return queries + hidden_size * self.key_dim + made + heads * latent.value_dim * hidden_size


class StateDtype(enum.StrEnum):
    """What `--mamba-ssm-dtype` may say."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"

    @property
    def size_bytes(self) -> int:
        """Bytes of one element."""
        return 4 if self is StateDtype.FLOAT32 else 2


@dataclass(frozen=True, slots=True)
class RecurrentShape:
    """The recurrent layers. Each has a state of `heads` matrices of `key_dim` x `value_dim`
    elements, and the last `conv_width` - 1 inputs, 16 bits each, of a convolution over
    `conv_channels`. `projected` are the outputs of its input projections; its output projection
    takes `heads` x `value_dim` elements in."""

    layers: int
    heads: int
    key_dim: int
    value_dim: int
    conv_channels: int
    conv_width: int
    projected: int

    def elements(self, tp: int) -> int:
        """Elements of all layers' state matrices on one of `tp` ranks."""
        return self.layers * max(1, self.heads // tp) * self.key_dim * self.value_dim

    def state_bytes(self, *, tp: int, dtype: StateDtype) -> int:
        """Bytes of the state behind one prefix, over all these layers, on one of `tp` ranks."""
        conv = self.layers * (self.conv_channels // tp) * (self.conv_width - 1) * CONV_BYTES
        return self.elements(tp) * dtype.size_bytes + conv

    def weights(self, *, hidden_size: int) -> int:
        """Parameters of the projections of all these layers."""
        return self.layers * hidden_size * (self.projected + self.heads * self.value_dim)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder with MLPs, dense, mixture of experts, or both per layer.

    Widths count elements, `window` and `max_context` tokens; `source` says where the numbers come
    from. `swa` None means that no layer slides, `recurrent` None that none is recurrent. There are
    `mlp_layers` MLPs, 0 for one after each layer, of `mlp_matrices` matrices: three where they are
    gated. `dense_mlps` of them have no experts and are `dense_size` wide. Raises `ConfigError` when
    the numbers cannot be.
    """

    name: str
    source: str
    hidden_size: int
    query_heads: int
    full: AttentionShape
    vocab_size: int
    max_context: int
    swa: AttentionShape | None = None
    window: int = 0
    intermediate_size: int = 0
    experts: int = 0
    experts_active: int = 0
    expert_size: int = 0
    tied_embeddings: bool = False
    weight_bits: float = 16
    expert_bits: float = 16
    recurrent: RecurrentShape | None = None
    mlp_layers: int = 0
    mlp_matrices: int = 3
    dense_mlps: int = 0
    dense_size: int = 0

    def __post_init__(self) -> None:
        if (self.swa is not None) != (self.window > 0):
            raise ConfigError(f"model {self.name}: a sliding window needs sliding layers, and back")
        if self.experts_active > self.experts:
            raise ConfigError(
                f"model {self.name}: {self.experts_active} active experts of {self.experts}"
            )
        if not 0 <= self.dense_mlps <= self.mlps:
            raise ConfigError(f"model {self.name}: {self.dense_mlps} dense MLPs of {self.mlps}")

    @property
    def layers(self) -> int:
        """Layers of all kinds, MLPs apart."""
        return self.attention_layers + (self.recurrent.layers if self.recurrent else 0)

    @property
    def attention_layers(self) -> int:
        """Layers that have keys and values."""
        return self.full.layers + (self.swa.layers if self.swa else 0)

    @property
    def mlps(self) -> int:
        """How many MLPs there are."""
        return self.mlp_layers or self.layers

    @property
    def mixed_mlps(self) -> int:
        """Those of them that have experts, where the model has some."""
        return self.mlps - self.dense_mlps

    @property
    def components(self) -> tuple[Component, ...]:
        """The components that this model's cache has."""
        return COMPONENT_SETS[self.swa is not None, self.recurrent is not None]

    @property
    def dense_parameters(self) -> int:
        """Weights that every token passes: attention, recurrence, dense MLPs and routers."""
        kinds = [self.full] if self.swa is None else [self.full, self.swa]
        attention = sum(
            kind.weights(hidden_size=self.hidden_size, query_heads=self.query_heads)
            for kind in kinds
        )
        if self.recurrent is not None:
            attention += self.recurrent.weights(hidden_size=self.hidden_size)
        dense = self.dense_mlps * self.mlp_matrices * self.dense_size
        each = self.mlp_matrices * self.intermediate_size + self.experts
        return attention + self.hidden_size * (self.mixed_mlps * each + dense)

    @property
    def expert_parameters(self) -> int:
        """Weights of all experts of all layers."""
        return self.mixed_mlps * self.experts * 3 * self.hidden_size * self.expert_size

    @property
    def head_parameters(self) -> int:
        """Weights of the output head, which only sampled tokens pass."""
        return self.vocab_size * self.hidden_size

    @property
    def embedding_parameters(self) -> int:
        """Weights of the embedding and the output head."""
        return self.head_parameters * (1 if self.tied_embeddings else 2)

    @property
    def total_parameters(self) -> int:
        """All weights but norms and biases."""
        return self.dense_parameters + self.expert_parameters + self.embedding_parameters

    @property
    def active_parameters(self) -> int:
        """Weights that one sampled token is multiplied with."""
        share = self.experts_active / self.experts if self.experts else 0.0
        return self.dense_parameters + round(self.expert_parameters * share) + self.head_parameters

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights, over all ranks."""
        bits = (
            self.dense_parameters * self.weight_bits
            + self.expert_parameters * self.expert_bits
            + self.embedding_parameters * EMBEDDING_BITS
        )
        return round(bits / 8)

    def token_bytes(self, component: Component, *, tp: int, dtype: KvDtype) -> int:
        """Bytes that one token takes in a component on one rank; 0 where it is absent, and for
        MAMBA, whose states do not grow."""
        kind = (self.full, self.swa, None)[component]
        return kind.token_bytes(tp=tp, dtype=dtype) if kind else 0

    def state_bytes(self, *, tp: int, dtype: StateDtype) -> int:
        """Bytes of one recurrent state on one rank; 0 without recurrent layers."""
        return self.recurrent.state_bytes(tp=tp, dtype=dtype) if self.recurrent else 0

    def check_tp(self, tp: int) -> None:
        """Raises `ConfigError` unless heads can be dealt out evenly over `tp` ranks."""
        if tp < 1 or self.query_heads % tp:
            fitting = [str(n) for n in range(1, self.query_heads + 1) if self.query_heads % n == 0]
            raise ConfigError(
                f"--tp {tp} does not divide the {self.query_heads} query heads of {self.name}:"
                f" use one of {', '.join(fitting)}"
            )
