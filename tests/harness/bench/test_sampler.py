"""Every sample is charged once, to the innermost frame of this program."""

import hashlib
import time

import pytest

from cache.keys import chain
from harness.bench.sampler import Sampler, part_of


@pytest.mark.parametrize(
    ("module", "part"),
    [
        ("cache.tree", "cache"),
        ("cache", "cache"),
        ("cache.audit", "oracles"),
        ("cacheable", "other"),
        ("harness.explore.kernel", "kernel"),
        ("harness.engine.world", "engine"),
        ("harness.engine.marks", "records"),
        ("harness.record.run", "records"),
        ("harness.bench.cache", "other"),
        ("workloads.tokens", "workload"),
        ("workloads.footprint", "records"),
        ("numpy", "other"),
    ],
)
def test_a_module_belongs_to_the_part_of_its_longest_known_prefix(module, part):
    assert part_of(module) == part


def test_hashing_is_charged_to_the_cache_that_asked_for_it():
    data = bytes(1 << 20)
    with Sampler() as sampler:
        stop = time.process_time() + 0.3
        while time.process_time() < stop:
            chain(1, data, 256)
    parts = sampler.parts()
    assert parts.total() == sampler.samples > 0
    assert parts["cache"] > parts["other"]
    assert sampler.functions.most_common(1)[0][0] == ("cache.keys", "chain")


def test_what_is_nobodys_is_other():
    with Sampler() as sampler:
        stop = time.process_time() + 0.1
        while time.process_time() < stop:
            hashlib.sha256(bytes(1 << 16)).digest()
    assert sampler.samples > 0
    assert sampler.parts()["other"] == sampler.samples


def test_the_timer_is_off_afterwards():
    with Sampler() as sampler:
        pass
    before = sampler.samples
    stop = time.process_time() + 0.05
    while time.process_time() < stop:
        pass
    assert sampler.samples == before
