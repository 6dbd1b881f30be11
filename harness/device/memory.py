"""Whether this machine has the memory that the pools of a run ask for."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import psutil
import torch

from cache.config import CacheConfig, Component, ConfigError, Tier

T = TypeVar("T")
_REFUSED = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "storage size calculation",
)


class NoMemory(NamedTuple):
    """Why pools could not be had. `pool` is the first that was too much."""

    pool: str
    wanted_bytes: int
    reason: str

    def sentence(self) -> str:
        gib = self.wanted_bytes / 2**30
        return f"no memory for the {self.pool} pool of {gib:,.1f} GiB: {self.reason}"


def lacking_memory(
    config: CacheConfig, slot_bytes: Mapping[Component, int], device: str, ranks: int = 1
) -> NoMemory | None:
    """The first pool that the free memory does not hold beside those before it, if there is one:
    the system would grant it, and end the process once it is used. All ranks are on this machine,
    and where there are GPUs each has one of its own."""
    on_gpu = device != "cpu"
    free = {Tier.HOST: _free_here(), Tier.DEVICE: _free_on_gpu(device) if on_gpu else 0}
    for component in config.components:
        sizes = config.pools(component)
        for tier, capacity in ((Tier.DEVICE, sizes.device), (Tier.HOST, sizes.host)):
            gpu = on_gpu and tier is Tier.DEVICE
            wanted = capacity * slot_bytes[component] * (1 if gpu else ranks)
            where = Tier.DEVICE if gpu else Tier.HOST
            if wanted > free[where]:
                reason = f"{free[where] / 2**30:,.1f} GiB are free {'there' if gpu else 'here'}"
                return NoMemory(_name(tier, component), wanted, reason)
            free[where] -= wanted
    return None


def granted(take: Callable[[], T], tier: Tier, component: Component, size: int) -> T | NoMemory:
    """What `take` makes for the pool of a component, or that its memory was refused: by torch for a
    GPU or for this machine, or by the driver that was to pin it."""
    try:
        return take()
    except (RuntimeError, MemoryError) as error:  # torch's OutOfMemoryError is the former
        if not is_shortage(error):
            raise
        return NoMemory(_name(tier, component), size, _first_line(error))


def is_shortage(error: BaseException) -> bool:
    """Whether memory was refused. What torch says of this machine's has no class of its own."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    said = str(error).lower()
    return isinstance(error, RuntimeError) and any(word in said for word in _REFUSED)


@contextmanager
def shortage_told() -> Iterator[None]:
    """What is done inside may run out of memory while it computes: a `ConfigError` then, whose one
    line says what to type."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_shortage(error):
            raise
        raise ConfigError(
            f"memory ran out ({_first_line(error)}): lower --device-pages or --chunked-prefill-size"
        ) from error


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _free_here() -> int:
    return int(psutil.virtual_memory().available)


def _free_on_gpu(device: str) -> int:
    return int(torch.cuda.mem_get_info(device)[0])


def _name(tier: Tier, component: Component) -> str:
    return f"{tier.name.lower()} {component.name}"
