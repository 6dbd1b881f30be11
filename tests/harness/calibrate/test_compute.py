"""From times of forwards to the preset with which a roofline gives them back."""

from dataclasses import replace

import numpy as np
import pytest

from cache.model import KvDtype
from cache.shapes import load_shape
from harness.calibrate import compute
from harness.calibrate.findings import Sample, Settings
from harness.engine.compute import RooflineCompute, Work, prefill_work
from harness.engine.hardware import base_of

SETTINGS = Settings(
    shape=load_shape("tiny-hybrid"),
    page_size=16,
    kv_dtype=KvDtype.FP8_E4M3,
    tp=1,
    device="cpu",
    repeats=1,
)
WINDOW = SETTINGS.shape.window
AMOUNTS = {
    **{f"p{n}.{at}": prefill_work([(at, at + n)], WINDOW) for n, at in compute.PREFILLS},
    **{
        f"d{n}.{context}": Work(decode_requests=n, decode_context_tokens=n * context)
        for n, context in compute.DECODES
    },
}


def test_a_preset_gives_back_the_times_of_the_machine_that_it_was_fitted_to() -> None:
    machine = replace(
        base_of("cpu"),
        bf16_flops=5e9,
        mfu=1.0,
        attention_mfu=0.4,
        attention_mbu=0.001,
        step_overhead_s=0.01,
        sequence_overhead_s=0.0005,
    )
    truth = RooflineCompute(SETTINGS.shape, machine, tp=1, kv_dtype=SETTINGS.kv_dtype, page_size=16)
    times = {name: truth.step_s(work) for name, work in AMOUNTS.items()}
    taken = {name: Sample(name, s, 0.0, s, s, 1) for name, s in times.items()}
    found = compute.findings(SETTINGS.shape, SETTINGS, taken, AMOUNTS)
    assert max(found.misfits.values()) < 0.02
    for name in ("bf16_flops", "step_overhead_s", "sequence_overhead_s", "attention_mbu"):
        assert found.hardware[name] == pytest.approx(getattr(machine, name), rel=0.05)


def test_a_term_that_would_be_negative_is_left_out() -> None:
    rows = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    found = compute.fit(rows, np.array([3.0, 2.0, 1.0]))
    assert found[1] == 0
    assert 1.0 < found[0] < 3.0


def test_forwards_are_measured_for_a_model_that_can_be_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compute, "PREFILLS", ((32, 0), (48, 32)))
    monkeypatch.setattr(compute, "DECODES", ((1, 64), (2, 32)))
    found = compute.measure(SETTINGS)
    assert len(found.samples) == 4
    assert all(sample.median_s > 0 for sample in found.samples)
    assert found.hardware["bf16_flops"] > 0


def test_nothing_is_measured_for_a_model_that_cannot() -> None:
    found = compute.measure(replace(SETTINGS, shape=load_shape("gpt-oss-120b")))
    assert (dict(found.hardware), list(found.samples)) == ({}, [])
