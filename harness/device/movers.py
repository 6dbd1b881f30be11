"""Which mover a run asks for, by the name of SGLang's flag."""

import torch

from cache.config import ConfigError
from cache.kernels import Mover
from cache.kernels.direct import DIRECT
from harness.engine.hardware import IoBackend


def mover_of(backend: IoBackend, device: str) -> Mover:
    """Raises `ConfigError` where `kernel` lacks Triton. Without a GPU both backends are torch's
    copies, for there is no link that a kernel could reach over."""
    if backend is IoBackend.DIRECT or torch.device(device).type == "cpu":
        return DIRECT
    try:
        from cache.kernels.gather import Gather
    except ImportError:
        raise ConfigError(
            "--hicache-io-backend kernel needs triton: pip install 'kvtorture[gpu]', or use direct"
        ) from None
    return Gather()


def best_device() -> str:
    """The GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"
