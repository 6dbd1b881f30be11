"""Small models and prompts for the tests of this folder."""

from dataclasses import replace

import numpy as np

from cache.config import CacheConfig, Component, PoolPages, Tier
from cache.model import AttentionShape, KvDtype, ModelShape, RecurrentShape
from harness.model.network import Network
from harness.model.pieces import Piece
from harness.model.store import ModelStore, store_maker
from harness.model.weights import make_weights

PAGE, WINDOW, SLOTS = 4, 10, 96
_ATTENTION = AttentionShape(layers=1, kv_heads=1, key_dim=8, value_dim=8)
HYBRID = ModelShape(
    name="test",
    source="made up here",
    hidden_size=32,
    query_heads=2,
    full=_ATTENTION,
    swa=_ATTENTION,
    window=WINDOW,
    recurrent=RecurrentShape(
        layers=1, heads=2, key_dim=4, value_dim=4, conv_channels=0, conv_width=1, projected=36
    ),
    intermediate_size=32,
    vocab_size=64,
    max_context=512,
    tied_embeddings=True,
)
FULL_ONLY = replace(HYBRID, swa=None, window=0, recurrent=None)
CONFIG = CacheConfig(
    page_size=PAGE,
    full=PoolPages(SLOTS, 0),
    swa=PoolPages(SLOTS, 0),
    window=WINDOW,
    mamba=PoolPages(SLOTS, 0),
)
TOKENS = np.random.default_rng(3).integers(0, 64, 100).astype(np.int32)
WEIGHTS = make_weights(HYBRID, 5, "cpu")


def a_network(dtype: KvDtype, device: str = "cpu") -> tuple[Network, dict[Component, ModelStore]]:
    make = store_maker(HYBRID, CONFIG, dtype, device=device)
    stores = {}
    for component in CONFIG.components:
        store = make(Tier.DEVICE, component, SLOTS)
        assert isinstance(store, ModelStore)
        stores[component] = store
    weights = WEIGHTS if device == "cpu" else make_weights(HYBRID, 5, device)
    return Network(HYBRID, weights, CONFIG, stores), stores


def a_piece(start: int, stop: int, *, at: int = 0, state: int = 0, kept: int = -1) -> Piece:
    """Tokens [start, stop) of a request whose page n is in slot `at` + n; logits of all of them."""
    pages = -(-stop // PAGE)
    low = max(0, start - WINDOW) // PAGE
    boundary = stop // PAGE * PAGE
    keeps = kept >= 0 and boundary > start
    return Piece(
        tokens=TOKENS[start:stop],
        start=start,
        full=[at + n for n in range(pages)],
        swa=[at + n for n in range(low, pages)],
        swa_start=low,
        state=state,
        kept=kept if keeps else None,
        boundary=boundary if keeps else 0,
        logits_from=start,
    )
