"""Compute models against numbers worked out by hand, and the laws that any model must keep."""

import itertools
from dataclasses import replace

import pytest

from cache.config import Component
from cache.layout import Layout
from cache.model import AttentionShape, ModelShape
from cache.shapes import PRESETS, KvDtype
from harness.engine.compute import (
    NULL_TICK_S,
    Direction,
    NullCompute,
    RooflineCompute,
    Work,
    prefill_work,
)
from harness.engine.hardware import COPY_PATHS, HARDWARE, CopyRate, Hardware, IoBackend

# 100 body weights a layer and token are easy to multiply: 4 query heads of 2, 2 KV heads of 2.
SHAPE = ModelShape(
    name="by hand",
    source="this test",
    hidden_size=10,
    query_heads=4,
    full=AttentionShape(layers=3, kv_heads=2, key_dim=2, value_dim=2),
    swa=AttentionShape(layers=1, kv_heads=2, key_dim=2, value_dim=2),
    window=8,
    intermediate_size=6,
    vocab_size=50,
    max_context=1000,
)
BODY = 4 * (10 * (4 * 4 + 2 * 4) + 3 * 10 * 6)  # projections and MLP of four layers
HEAD = 50 * 10
SLOW = Hardware(
    name="slow",
    source="this test",
    memory_bytes=10**6,
    memory_bandwidth=1e3,
    bf16_flops=1e4,
    fp8_flops=1e4,
    to_host_bandwidth=100,
    to_device_bandwidth=50,
    mfu=0.5,
    mbu=0.8,
    step_overhead_s=0.25,
    allreduce_s=0.125,
)


def _roofline(shape=SHAPE, hardware=SLOW, tp=1, **settings):
    return RooflineCompute(shape, hardware, tp=tp, kv_dtype=KvDtype.BF16, page_size=4, **settings)


def test_prefill_work_counts_what_a_loop_over_tokens_counts():
    chunks, window = [(0, 5), (3, 20), (40, 44)], 8
    work = prefill_work(chunks, window)
    positions = [position for start, stop in chunks for position in range(start, stop)]
    assert work.prefill_tokens == len(positions)
    assert work.prefill_context_tokens == sum(position + 1 for position in positions)
    assert work.prefill_window_tokens == sum(min(position + 1, window) for position in positions)
    assert work.prefill_read_tokens == 5 + 20 + 44
    assert work.prefill_window_read_tokens == 5 + 20 + (8 + 4)
    assert work.prefill_requests == 3
    assert (work.decode_requests, work.decode_context_tokens) == (0, 0)


def test_without_a_window_nothing_is_out_of_sight():
    work = prefill_work([(100, 110)], 0)
    assert work.prefill_window_tokens == work.prefill_context_tokens
    assert work.prefill_window_read_tokens == work.prefill_read_tokens


def test_a_decode_step_takes_the_time_worked_out_by_hand():
    work = Work(decode_requests=2, decode_context_tokens=60, decode_window_tokens=16)
    matrices_flop_s = 2 * (2 * BODY + 2 * HEAD) / (1e4 * 0.5)
    matrices_byte_s = 2 * (BODY + HEAD) / (1e3 * 0.8)  # the embedding is looked up, not read
    attention_flops = (60 * 3 + 16 * 1) * 2 * 4 * (2 + 2)
    kv_bytes = ((60 + 2) * 3 + (16 + 2) * 1) * 2 * (2 + 2) * 2
    expected = (
        0.25
        + max(matrices_flop_s, matrices_byte_s)
        + max(attention_flops / (1e4 * 0.5), kv_bytes / (1e3 * 0.8))
    )
    assert _roofline().step_s(work) == pytest.approx(expected, rel=1e-12)
    assert matrices_byte_s > matrices_flop_s  # a small decode batch is bound by the weights


def test_a_prefill_step_takes_the_time_worked_out_by_hand():
    work = prefill_work([(0, 40)], SHAPE.window)
    matrices_flop_s = 2 * (40 * BODY + HEAD) / (1e4 * 0.5)
    in_full, in_window = 40 * 41 // 2, 8 * 9 // 2 + 32 * 8
    attention_flops = (in_full * 3 + in_window * 1) * 2 * 4 * (2 + 2)
    expected = 0.25 + matrices_flop_s + attention_flops / (1e4 * 0.5)
    assert _roofline().step_s(work) == pytest.approx(expected, rel=1e-12)


def test_sliding_layers_slide_even_if_the_work_does_not_say_how_far():
    told = prefill_work([(100, 140)], SHAPE.window)
    untold = prefill_work([(100, 140)], 0)
    assert _roofline().step_s(untold) == _roofline().step_s(told)
    decode = Work(decode_requests=2, decode_context_tokens=300, decode_window_tokens=16)
    assert _roofline().step_s(decode._replace(decode_window_tokens=0)) == _roofline().step_s(decode)


def test_ranks_halve_all_but_the_overhead():
    work = Work(decode_requests=2, decode_context_tokens=60, decode_window_tokens=16)
    one, two = _roofline(tp=1), _roofline(tp=2)
    assert one.overhead_s == 0.25
    assert two.overhead_s == 0.25 + 2 * 4 * 0.125
    assert two.step_s(work) - two.overhead_s == pytest.approx(
        (one.step_s(work) - one.overhead_s) / 2
    )


def test_more_work_never_takes_less_time():
    compute = RooflineCompute(
        PRESETS["gpt-oss-120b"],
        HARDWARE["H200"],
        tp=2,
        kv_dtype=KvDtype.FP8_E4M3,
        page_size=64,
    )
    base = Work(900, 400_000, 9_000, 100_000, 2_000, 3, 16, 64_000, 2_000)
    for field in Work._fields:
        times = [
            compute.step_s(base._replace(**{field: getattr(base, field) * factor}))
            for factor in (1, 2, 8, 64)
        ]
        assert all(a <= b for a, b in itertools.pairwise(times)), field


def test_a_small_batch_reads_only_the_experts_that_it_reaches():
    shape, tokens = PRESETS["gpt-oss-120b"], (1, 32, 4096)
    compute = RooflineCompute(shape, HARDWARE["H200"], tp=1, kv_dtype=KvDtype.BF16, page_size=64)
    bandwidth = 4800e9 * 0.8
    seconds = [compute.step_s(Work(decode_requests=count)) - compute.overhead_s for count in tokens]
    dense = shape.weight_bytes - shape.expert_parameters * 4.25 / 8 - 2 * shape.head_parameters
    one_token = dense + shape.expert_parameters * 4.25 / 8 * 4 / 128
    kv_written = sum(
        shape.token_bytes(component, tp=1, dtype=KvDtype.BF16) for component in Component
    )
    assert seconds[0] == pytest.approx((one_token + kv_written) / bandwidth, rel=1e-9)
    assert seconds[0] < seconds[1] < seconds[2]


def test_a_decode_step_of_a_known_model_takes_a_believable_time():
    compute = RooflineCompute(
        PRESETS["Llama-3.1-8B"], HARDWARE["H100"], tp=1, kv_dtype=KvDtype.BF16, page_size=64
    )
    step_ms = 1e3 * compute.step_s(Work(decode_requests=1, decode_context_tokens=1000))
    assert 4.5 < step_ms < 8  # 16 GB of weights at 3.35 TB/s are 4.5 ms


def test_a_prefill_over_latents_makes_the_prefix_again_and_a_decode_does_not():
    shape = PRESETS["DeepSeek-V3"]
    compute = RooflineCompute(shape, HARDWARE["H200"], tp=8, kv_dtype=KvDtype.BF16, page_size=64)
    head_flops = HARDWARE["H200"].bf16_flops * HARDWARE["H200"].mfu
    heads, layers = 128 / 8, 61
    chunk = compute.parts(prefill_work([(1000, 1100)], 0))
    seen = sum(range(1001, 1101))
    made = 2 * heads * layers * 512 * (128 + 128) * 1000
    assert chunk.attend_s == pytest.approx(
        (2 * heads * layers * (128 + 64 + 128) * seen + made) / head_flops
    )
    decode = compute.parts(Work(decode_requests=1, decode_context_tokens=1000))
    assert decode.attend_s == pytest.approx(2 * heads * layers * (576 + 512) * 1000 / head_flops)
    assert decode.attend_byte_s * HARDWARE["H200"].memory_bandwidth * HARDWARE[
        "H200"
    ].mbu == pytest.approx(1001 * layers * 576 * 2)


def test_a_page_of_latents_is_one_fragment_in_each_layer():
    shape = PRESETS["DeepSeek-V3"]
    page = 64 * shape.token_bytes(Component.FULL, tp=1, dtype=KvDtype.BF16)
    compute = RooflineCompute(
        shape,
        SLOW,
        tp=1,
        kv_dtype=KvDtype.BF16,
        page_size=64,
        io_backend=IoBackend.DIRECT,
        mem_layout=Layout.LAYER_FIRST,
    )
    path = COPY_PATHS[IoBackend.DIRECT]
    moved = page / (SLOW.to_host_bandwidth * path.efficiency)
    assert compute.copy_s(page, 1, Direction.DEVICE_TO_HOST) == pytest.approx(
        path.launch_s + 61 * path.fragment_s + moved
    )


def test_copies_take_launch_fragments_and_bytes():
    full, swa = 4 * 3 * 16, 4 * 1 * 16  # bytes of a page of four tokens
    direct = _roofline(io_backend=IoBackend.DIRECT, mem_layout=Layout.LAYER_FIRST)
    fragments = 5 * 2 * 4  # five pages of both components: keys and values of four layers
    assert direct.copy_s(5 * (full + swa), 10, Direction.DEVICE_TO_HOST) == pytest.approx(
        20e-6 + fragments * 0.5e-6 + 5 * (full + swa) / 100
    )
    kernel = _roofline(io_backend=IoBackend.KERNEL, mem_layout=Layout.PAGE_FIRST)
    assert kernel.copy_s(5 * full, 5, Direction.HOST_TO_DEVICE) == pytest.approx(
        10e-6 + 5 * 0.01e-6 + 5 * full / (50 * 68.5 / 83.4)
    )


def test_pages_first_spares_the_copy_engine_fragments():
    def seconds(layout):
        compute = _roofline(io_backend=IoBackend.DIRECT, mem_layout=layout)
        return compute.copy_s(64_000, 100, Direction.HOST_TO_DEVICE)

    assert seconds(Layout.PAGE_FIRST) < seconds(Layout.PAGE_FIRST_DIRECT)
    assert seconds(Layout.PAGE_FIRST_DIRECT) < seconds(Layout.LAYER_FIRST)


def test_time_goes_forward_even_when_nothing_costs_anything():
    null = NullCompute()
    assert null.step_s(Work()) == NULL_TICK_S > 0
    assert null.copy_s(0, 0, Direction.DEVICE_TO_HOST) == NULL_TICK_S
    assert _roofline().step_s(Work()) == 0.25
    assert _roofline().copy_s(0, 0, Direction.HOST_TO_DEVICE) > 0


def test_copies_take_what_was_measured_where_it_was():
    rate = CopyRate(IoBackend.DIRECT, Layout.PAGE_FIRST, Direction.HOST_TO_DEVICE.name, 0.5, 4e6)
    hardware = replace(HARDWARE["cpu"], copies=(rate,))
    assumed = _roofline(mem_layout=Layout.PAGE_FIRST, hardware=HARDWARE["cpu"])
    measured = _roofline(mem_layout=Layout.PAGE_FIRST, hardware=hardware)
    assert measured.copy_s(8_000_000, 9, Direction.HOST_TO_DEVICE) == 0.5 + 2.0
    other = (8_000_000, 9, Direction.DEVICE_TO_HOST)
    assert measured.copy_s(*other) == assumed.copy_s(*other)
