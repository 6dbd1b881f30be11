"""Hardware presets: found by name, and consistent with one another."""

import itertools

import pytest

from cache.config import ConfigError
from harness.engine.hardware import HARDWARE, load_hardware


def test_a_preset_is_found_in_any_case():
    assert load_hardware("h200") is HARDWARE["H200"]
    assert load_hardware("CPU") is HARDWARE["cpu"]


def test_an_unknown_device_is_refused_with_the_choices():
    with pytest.raises(ConfigError, match="choose --hardware H200, B200, H100, A100, cpu"):
        load_hardware("TPU")


def test_every_preset_says_where_its_numbers_come_from():
    for hardware in HARDWARE.values():
        assert hardware.source
        assert hardware.to_device_bandwidth < hardware.memory_bandwidth
        assert hardware.bf16_flops <= hardware.fp8_flops
        assert 0 < hardware.mfu < 1
        assert 0 < hardware.mbu < 1


def test_newer_devices_are_faster():
    order = [HARDWARE[name] for name in ("cpu", "A100", "H100", "H200", "B200")]
    for older, newer in itertools.pairwise(order):
        assert older.memory_bandwidth < newer.memory_bandwidth
        assert older.memory_bytes <= newer.memory_bytes
