"""A preset made of what a run's forwards took, and what it says of other forwards."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.calibrate.forwards import (
    LEAST,
    Forward,
    forwards_of,
    lacking,
    preset_of,
    settings_for,
    share_of,
)
from harness.engine.compute import RooflineCompute, Work, prefill_work
from harness.engine.hardware import base_of
from harness.record.forwards import Forwards
from harness.soak.calibrated import FILE, read_machine, write_calibrated
from tests.harness.model.sizes import HYBRID

SETTINGS = settings_for(HYBRID, 4, "fp8_e4m3", "cpu")
MACHINE = replace(
    base_of("cpu"),
    bf16_flops=3e8,
    fp8_flops=3e8,
    mfu=1.0,
    attention_mfu=0.5,
    attention_mbu=1e-4,
    step_overhead_s=4e-3,
    sequence_overhead_s=5e-4,
)


def forwards_on(slower: float = 1.0, *, count: int = 40) -> list[Forward]:
    """Prefills and decodes as that machine does them, a tenth of each in the scheduler's turn."""
    roofline = RooflineCompute(HYBRID, MACHINE, tp=1, kv_dtype=SETTINGS.kv_dtype, page_size=4)
    works = []
    for number in range(count):
        start = 16 * (number % 7)
        works.append(prefill_work([(start, start + 8 * (1 + number % 5))], HYBRID.window))
        requests = 1 + number % 4
        works.append(Work(decode_requests=requests, decode_context_tokens=requests * 9 * number))
    seconds = [slower * roofline.step_s(work) for work in works]
    return [Forward(w, 0.1 * s, 0.9 * s) for w, s in zip(works, seconds, strict=True)]


def test_a_preset_gives_the_times_that_it_was_made_of() -> None:
    preset = preset_of(forwards_on(), SETTINGS, "made up")
    assert preset.source == "made up"
    for prefill in (True, False):
        assert share_of(preset, forwards_on(), SETTINGS, prefill=prefill) == pytest.approx(1, 1e-3)
        slower = share_of(preset, forwards_on(1.5), SETTINGS, prefill=prefill)
        assert slower == pytest.approx(1.5, 1e-3)


def test_a_preset_goes_through_means_and_makes_little_of_a_hiccup() -> None:
    """Every other of them takes twice as long, so it takes 4/3 of the mean."""
    forwards = forwards_on(count=200)
    slow = forwards_on(2.0, count=200)
    uneven = [pair[number // 2 % 2] for number, pair in enumerate(zip(forwards, slow, strict=True))]
    preset = preset_of(uneven, SETTINGS, "uneven")
    for prefill in (True, False):
        assert share_of(preset, slow, SETTINGS, prefill=prefill) == pytest.approx(4 / 3, rel=0.1)
    hiccup = [forwards_on()[0]._replace(seconds=60.0), *forwards_on()[1:]]
    preset = preset_of(hiccup, SETTINGS, "once")
    assert share_of(preset, forwards_on(), SETTINGS, prefill=True) == pytest.approx(1, abs=0.1)


def test_many_decodes_do_not_outweigh_few_prefills() -> None:
    """Of decodes a third as slow, and twenty times as many, prefills keep their own time."""
    forwards = forwards_on()
    prefills = [f for f in forwards if f.work.prefill_tokens]
    decodes = [f._replace(seconds=3 * f.seconds) for f in forwards if not f.work.prefill_tokens]
    even = preset_of([*prefills, *decodes], SETTINGS, "even")
    many = preset_of([*prefills, *(20 * decodes)], SETTINGS, "many")
    for prefill in (True, False):
        shares = [share_of(p, forwards, SETTINGS, prefill=prefill) for p in (even, many)]
        assert shares[0] == pytest.approx(shares[1], 1e-6)


def test_too_few_forwards_of_a_kind_are_no_fit() -> None:
    assert lacking(forwards_on(count=LEAST)) == ""
    assert lacking(forwards_on(count=LEAST - 1)) == f"{LEAST - 1} prefills, and a fit takes {LEAST}"


def test_forwards_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = Forwards(tmp_path, Work._fields)
    file.close()
    with pytest.raises(ValueError, match="has no forward"):
        forwards_of(tmp_path)
    file = Forwards(tmp_path, Work._fields)
    file.add(Work(prefill_tokens=3), 0.25, 0.5)
    file.close()
    assert forwards_of(tmp_path) == [Forward(Work(prefill_tokens=3), 0.25, 0.5)]


def test_a_machine_that_changed_during_a_run_is_told_from_one_that_did_not(tmp_path: Path) -> None:
    write_calibrated(tmp_path, SETTINGS, forwards_on(), forwards_on(1.1), forwards_on(1.1))
    machine = read_machine(tmp_path / FILE)
    assert machine is not None
    assert machine.same
    assert machine.apart == pytest.approx(0.1, 0.02)
    assert machine.before.prefills == pytest.approx(1.1, 1e-2)
    assert machine.after.decodes == pytest.approx(1.0, 1e-2)
    write_calibrated(tmp_path, SETTINGS, forwards_on(), forwards_on(), forwards_on(1.5))
    machine = read_machine(tmp_path / FILE)
    assert machine is not None
    assert not machine.same
    assert "+50% after the run" in machine.sentence()
    changing = [*forwards_on(), *forwards_on(1.5)]
    write_calibrated(tmp_path, SETTINGS, forwards_on(1.2), changing, forwards_on(1.2))
    machine = read_machine(tmp_path / FILE)
    assert machine is not None
    assert machine.apart == pytest.approx(0, abs=0.01)
    assert not machine.same
