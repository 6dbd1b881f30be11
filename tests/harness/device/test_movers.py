"""The flag's backend becomes a mover; without a GPU there is one."""

import sys

import pytest

from cache.config import ConfigError
from cache.kernels.direct import DIRECT
from harness.device.movers import mover_of
from harness.engine.hardware import IoBackend


@pytest.mark.parametrize("backend", IoBackend)
def test_without_a_gpu_torch_copies(backend):
    assert mover_of(backend, "cpu") is DIRECT


def test_a_kernel_without_triton_is_refused_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "cache.kernels.gather", None)
    assert mover_of(IoBackend.DIRECT, "cuda") is DIRECT
    with pytest.raises(ConfigError, match="needs triton"):
        mover_of(IoBackend.KERNEL, "cuda")
