"""How many pages fit: from a model, a device and SGLang's memory flags to the pools of a cache.

As in SGLang, `mem_fraction_static` of the device's memory holds the weights and the pools, of which
recurrent states get `mamba_full_memory_ratio` bytes for each byte of KV; the rest is left to
activations. Invariant: unless the pages are given, weights and pools together never
exceed that share.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from cache.config import (
    STATES_OF_A_REQUEST,
    CacheConfig,
    Companion,
    Component,
    ConfigError,
    PoolPages,
)
from cache.model import KvDtype, ModelShape, StateDtype
from cache.sidecars import OWN_POOLS, sidecars
from harness.engine.hardware import GB, Hardware

MIN_RATIO, MAX_RATIO = 0.25, 8.0


@dataclass(frozen=True, slots=True)
class Sizing:
    """Pools, and where the memory of one rank goes. `config` has the default policies; use
    `dataclasses.replace` for others. `reserve_bytes` is what weights and pools may not use,
    `kv_bytes` what all device pools take, states included."""

    config: CacheConfig
    memory_bytes: int
    weight_bytes: int
    reserve_bytes: int
    kv_bytes: int
    host_bytes: int

    @property
    def device_tokens(self) -> int:
        """Tokens that the FULL pool holds."""
        return self.config.full.device * self.config.page_size


def size_pools(
    shape: ModelShape,
    hardware: Hardware,
    *,
    tp: int,
    kv_dtype: KvDtype,
    mem_fraction_static: float,
    page_size: int,
    context_length: int | None = None,
    hicache_ratio: float | None = None,
    hicache_size_gb: float | None = None,
    device_pages: int | None = None,
    components: tuple[Component, ...] | None = None,
    swa_full_tokens_ratio: float = 0.8,
    mamba_full_memory_ratio: float = 0.9,
    max_mamba_cache_size: int | None = None,
    state_dtype: StateDtype = StateDtype.FLOAT32,
    companions: tuple[str, ...] = (),
) -> Sizing:
    """The pools of one rank.

    `components` None takes those of the model; without SWA sliding layers are in the FULL pool.
    `device_pages` sets the FULL pool whatever the memory, and `max_mamba_cache_size` the states
    whatever their share. `companions` (names of `cache.sidecars`) take their bytes beside every
    slot. `hicache_size_gb` (per rank, split over the components as their device
    bytes are) overrides `hicache_ratio` unless it is 0; without both there is no host tier. Raises
    `ConfigError`.
    """
    shape.check_tp(tp)
    components = _check_components(shape, components)
    _check_lengths(shape, page_size, context_length)
    _check_shares(mem_fraction_static, swa_full_tokens_ratio, mamba_full_memory_ratio)
    beside = sidecars(companions, shape, components, tp=tp, page_size=page_size, kv_dtype=kv_dtype)
    state_bytes = shape.state_bytes(tp=tp, dtype=state_dtype)
    page_bytes = (*_page_bytes(shape, components, page_size, tp, kv_dtype), state_bytes)
    slot_bytes = _with_companions(page_bytes, beside)
    window = shape.window if Component.SWA in components else 0
    share = swa_full_tokens_ratio if window else 0.0
    size = slot_bytes[Component.MAMBA] if state_bytes else 0
    states = _States(size, mamba_full_memory_ratio, max_mamba_cache_size)
    weight_bytes = -(-shape.weight_bytes // tp)
    static_bytes = int(hardware.memory_bytes * mem_fraction_static)
    per_page = slot_bytes[Component.FULL] + share * slot_bytes[Component.SWA]
    if device_pages is None:
        pages, count = states.shared_out(static_bytes - weight_bytes, per_page)
        if min(pages, pages * share or pages) < 1 + -(-window // page_size):
            raise _does_not_fit(shape, hardware, tp, weight_bytes, static_bytes)
    else:
        pages, count = device_pages, states.beside(device_pages, per_page)
    device = (pages, int(pages * share), count)
    kv_bytes = _bytes(device, slot_bytes)
    ratio = _host_ratio(hicache_ratio, hicache_size_gb, kv_bytes)
    host = tuple(max(1, int(pages * ratio)) if pages and ratio else 0 for pages in device)
    return Sizing(
        config=CacheConfig(
            page_size=page_size,
            full=PoolPages(device[0], host[0]),
            swa=PoolPages(device[1], host[1]) if window else None,
            window=window,
            page_bytes=page_bytes,
            mamba=PoolPages(count, host[2]) if state_bytes else None,
            companions=_pooled(beside, device, host),
        ),
        memory_bytes=hardware.memory_bytes,
        weight_bytes=weight_bytes,
        reserve_bytes=hardware.memory_bytes - static_bytes,
        kv_bytes=kv_bytes,
        host_bytes=_bytes(host, slot_bytes),
    )


def _with_companions(
    page_bytes: tuple[int, ...], companions: tuple[Companion, ...]
) -> tuple[int, ...]:
    """By component, the bytes of a slot and of what lies beside it."""
    sizes = list(page_bytes)
    for companion in companions:
        sizes[companion.owner] += companion.slot_bytes
    return tuple(sizes)


def _pooled(
    companions: tuple[Companion, ...], device: tuple[int, ...], host: tuple[int, ...]
) -> tuple[Companion, ...]:
    """Those that have pools of their own get as many slots as their owner."""
    return tuple(
        replace(c, pools=PoolPages(device[c.owner], host[c.owner])) if c.name in OWN_POOLS else c
        for c in companions
    )


class _States(NamedTuple):
    """Of `size_bytes` each; `ratio` bytes of them for each byte of KV, or `most` of them."""

    size_bytes: int
    ratio: float
    most: int | None

    def shared_out(self, left_bytes: int, per_page: float) -> tuple[int, int]:
        """Pages and states that fill `left_bytes`."""
        count = self.count(left_bytes)
        return int((left_bytes - count * self.size_bytes) // per_page), count

    def beside(self, device_pages: int, per_page: float) -> int:
        """States for a pool whose pages are given. Raises `ConfigError`."""
        if device_pages < 1:
            raise ConfigError(f"--device-pages must be 1 or more, not {device_pages}")
        return self.count(device_pages * per_page * (1 + self.ratio))

    def count(self, left_bytes: float) -> int:
        """How many there are where they and KV share so many bytes."""
        if not self.size_bytes:
            return 0
        if self.most is not None:
            return self.most
        share = left_bytes * self.ratio / (1 + self.ratio)
        return max(STATES_OF_A_REQUEST, int(share // self.size_bytes))


def _check_components(
    shape: ModelShape, components: tuple[Component, ...] | None
) -> tuple[Component, ...]:
    if components is None:
        return shape.components
    if Component.FULL not in components:
        raise ConfigError("every cache has the FULL component: --components full, or full,swa")
    if Component.SWA in components and shape.swa is None:
        raise ConfigError(f"{shape.name} has no sliding-window layers: use --components full")
    if (Component.MAMBA in components) != (shape.recurrent is not None):
        have = "no" if shape.recurrent is None else "some"
        names = ",".join(component.name.lower() for component in shape.components)
        raise ConfigError(f"{shape.name} has {have} recurrent layers: use --components {names}")
    return components


def _check_lengths(shape: ModelShape, page_size: int, context_length: int | None) -> None:
    context = shape.max_context if context_length is None else context_length
    if not 1 <= context <= shape.max_context:
        raise ConfigError(
            f"--context-length must lie between 1 and the {shape.max_context} tokens of"
            f" {shape.name}, not {context}"
        )
    if not 1 <= page_size <= context:
        raise ConfigError(
            f"--page-size must lie between 1 and the context of {context} tokens, not {page_size}"
        )


def _check_shares(
    mem_fraction_static: float, swa_full_tokens_ratio: float, mamba_full_memory_ratio: float
) -> None:
    if not 0 < mem_fraction_static < 1:
        raise ConfigError(
            f"--mem-fraction-static must lie between 0 and 1, not {mem_fraction_static}"
        )
    if not 0 < swa_full_tokens_ratio <= 1:
        raise ConfigError(
            f"--swa-full-tokens-ratio must be above 0 and 1 at most, not {swa_full_tokens_ratio}"
        )
    if not 0 < mamba_full_memory_ratio < float("inf"):
        raise ConfigError(
            f"--mamba-full-memory-ratio must be above 0, not {mamba_full_memory_ratio}"
        )


def _page_bytes(
    shape: ModelShape,
    components: tuple[Component, ...],
    page_size: int,
    tp: int,
    kv_dtype: KvDtype,
) -> tuple[int, int]:
    """Bytes of one page of FULL and of SWA; layers without a component of their own go to FULL."""
    full, swa = (
        page_size * shape.token_bytes(component, tp=tp, dtype=kv_dtype)
        for component in (Component.FULL, Component.SWA)
    )
    return (full, swa) if Component.SWA in components else (full + swa, 0)


def _host_ratio(ratio: float | None, size_gb: float | None, kv_bytes: int) -> float:
    """Host slots per device slot; 0 for no host tier."""
    if size_gb:
        if not 0 < size_gb * GB < float("inf"):
            raise ConfigError(f"--hicache-size must be above 0 gigabytes per rank, not {size_gb}")
        return size_gb * GB / kv_bytes
    if ratio is None:
        return 0.0
    if not MIN_RATIO <= ratio <= MAX_RATIO:
        raise ConfigError(
            f"--hicache-ratio must lie between {MIN_RATIO} and {MAX_RATIO:g}, not {ratio:g};"
            " for no host tier use --disable-hierarchical-cache"
        )
    return ratio


def _bytes(pages: tuple[int, ...], page_bytes: tuple[int, ...]) -> int:
    return sum(count * size for count, size in zip(pages, page_bytes, strict=True))


def _does_not_fit(
    shape: ModelShape, hardware: Hardware, tp: int, weight_bytes: int, static_bytes: int
) -> ConfigError:
    return ConfigError(
        f"{shape.name} does not fit: weights take {weight_bytes / GB:.1f} GB of the"
        f" {static_bytes / GB:.1f} GB that a rank on {hardware.name} may use: raise --tp (now"
        f" {tp}) or --mem-fraction-static, or choose a larger --hardware"
    )
