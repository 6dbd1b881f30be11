"""A calibration puts together what its measurements find, and says what it doubts."""

from types import SimpleNamespace

from cache.model import KvDtype
from cache.shapes import DEFAULT_MODEL, load_shape
from harness.calibrate.findings import Findings, Settings, sample_of, samples_of
from harness.calibrate.run import calibrate
from harness.engine.hardware import HARDWARE

SETTINGS = Settings(
    shape=load_shape(DEFAULT_MODEL),
    page_size=64,
    kv_dtype=KvDtype.FP8_E4M3,
    tp=1,
    device="cpu",
    repeats=1,
)
QUIET = sample_of("quiet", [1.0, 1.1, 1.0])
BUSY = sample_of("busy", [1.0, 2.0, 9.0])


def a_measurement(name, found):
    return SimpleNamespace(NAME=name, measure=lambda settings: found)


def test_what_is_measured_replaces_what_was_assumed():
    first = a_measurement("first", Findings({"to_host_bandwidth": 5.0}, [QUIET]))
    second = a_measurement("second", Findings({"bf16_flops": 7.0}, [QUIET]))
    told = []
    found = calibrate(SETTINGS, lambda name, _: told.append(name), measurements=(first, second))
    assert told == ["first", "second"]
    assert (found.hardware.to_host_bandwidth, found.hardware.bf16_flops) == (5.0, 7.0)
    assert found.hardware.mfu == HARDWARE["cpu"].mfu
    assert "mfu" in found.assumed
    assert "bf16_flops" not in found.assumed
    assert found.doubts == ()


def test_noise_and_bent_lines_are_doubts():
    measurement = a_measurement("one", Findings({}, [QUIET, BUSY], {"fine": 0.1, "bent": 0.9}))
    found = calibrate(SETTINGS, lambda *_: None, measurements=(measurement,))
    assert [doubt.split(",")[0] for doubt in found.doubts] == ["noisy: busy", "bent: bent"]


def test_repeats_take_turns_and_the_first_does_not_count():
    seen = []
    taken = samples_of(2, {name: lambda n, name=name: seen.append((name, n)) for name in "ab"})
    assert seen == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert [taken[name].repeats for name in "ab"] == [2, 2]
