"""Sidecars of real servers: their bytes, worked out by hand, and who may have them."""

import pytest

from cache.config import FULL, MAMBA, SWA, Companion, ConfigError
from cache.model import KvDtype
from cache.shapes import PRESETS
from cache.sidecars import NAMES, sidecars
from harness.record.metrics import TIMESERIES


def of(model: str, *names: str, components=None, tp: int = 2, dtype=KvDtype.FP8_E4M3):
    shape = PRESETS[model]
    return sidecars(
        names, shape, components or shape.components, tp=tp, page_size=64, kv_dtype=dtype
    )


def test_a_row_of_k_and_of_v_has_a_scale_on_each_rank():
    full, window = of("gemma-4-31B-it", "scales")
    assert full == Companion("scales", FULL, 64 * 2 * 10 * 2 * 4)
    assert window == Companion("window_scales", SWA, 64 * 2 * 50 * 8 * 4)
    (both,) = of("gemma-4-31B-it", "scales", components=(FULL,))
    assert both.slot_bytes == full.slot_bytes + window.slot_bytes


def test_an_indexers_keys_are_whole_on_every_rank_and_an_object_of_their_own():
    for tp in (1, 8):
        (keys,) = of("Llama-3.1-8B", "indexer", tp=tp)
        assert keys == Companion("indexer", FULL, 64 * 32 * 132, apart=True)


def test_a_draft_head_is_one_layer_of_the_models_own():
    (draft,) = of("Llama-3.1-8B", "draft", tp=1)
    assert draft.slot_bytes * 32 == 64 * PRESETS["Llama-3.1-8B"].token_bytes(
        FULL, tp=1, dtype=KvDtype.FP8_E4M3
    )


def test_a_side_state_lies_beside_a_recurrent_state():
    (side,) = of("Qwen3-Next-80B-A3B", "side")
    assert side == Companion("side", MAMBA, 184_320 + 16)


@pytest.mark.parametrize(
    ("model", "name", "dtype", "says"),
    [
        ("Llama-3.1-8B", "side", KvDtype.FP8_E4M3, "no recurrent states"),
        ("Llama-3.1-8B", "scales", KvDtype.BF16, "needs no scales"),
        ("DeepSeek-V3", "scales", KvDtype.FP8_E4M3, "no rows of K and of V"),
        ("Llama-3.1-8B", "wings", KvDtype.FP8_E4M3, "use scales, indexer, draft, side"),
    ],
)
def test_what_has_nothing_to_belong_to_is_refused(model, name, dtype, says):
    with pytest.raises(ConfigError, match=says) as error:
        of(model, name, dtype=dtype)
    assert "\n" not in str(error.value)


def test_each_has_its_columns_in_the_series():
    found = of("gemma-4-31B-it", "scales", "indexer", "draft") + of("Qwen3-Next-80B-A3B", "side")
    assert {c.name for c in found} > set(NAMES) - {"scales"}
    for companion in found:
        assert f"host_{companion.name}_used_pages" in TIMESERIES
