"""Pages of real bytes between the tiers, beside a plain copy of as many bytes.

The device's pool is laid out layer by layer, the host's in each of the layouts; pages lie in random
slots of both, as they do after hours. Invariant: every repeat times the plain copy and both
directions of every layout, so what the machine is doing meanwhile falls on all.
"""

import gc
from collections.abc import Callable
from functools import partial
from time import perf_counter

import torch

from cache.layout import Layout
from cache.model import KvDtype
from cache.tensors import PageShape, TensorStore
from harness.bench.sheet import Cell, Sheet, Spread, spread_of
from harness.explore.prng import SplitMix

SHAPE = PageShape(layers=12, tokens=64, width=8 * 128, dtype=KvDtype.FP8_E4M3)
SEED = 1
PROMISED = {Layout.LAYER_FIRST: 0.3, Layout.PAGE_FIRST: 0.6, Layout.PAGE_FIRST_DIRECT: 0.6}


def measure(repeats: int, *, pages: int) -> Sheet:
    """On one thread, as one copy stream would."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rates = _rates(repeats, pages)
    finally:
        torch.set_num_threads(threads)
    plain = spread_of(rates["plain copy"])
    return Sheet(
        name="copies",
        title="Copies between the tiers: 64-token fp8 pages, CPU memory",
        notes=(
            f"{pages} pages of {SHAPE.layers} layers ({SHAPE.page_bytes / 2**20:.2f} MiB each) in"
            f" random slots, one thread, {repeats} repeats; the device's pool is layer_first.",
            "'of_plain_x' is how many times as fast as copying as many bytes from one tensor to"
            " another; what is promised: "
            + ", ".join(f"{layout} {share}" for layout, share in PROMISED.items())
            + ".",
        ),
        columns=("copy", "median_gb_s", "min_gb_s", "max_gb_s", "of_plain_x"),
        rows=tuple(_row(name, spread_of(taken), plain) for name, taken in rates.items()),
    )


def _row(name: str, spread: Spread, plain: Spread) -> tuple[Cell, ...]:
    return name, spread.median, spread.least, spread.most, spread.median / plain.median


def _rates(repeats: int, pages: int) -> dict[str, list[float]]:
    """GB/s of each repeat."""
    chance = SplitMix(SEED)
    here, there = _shuffled(pages, chance), _shuffled(pages, chance)
    device = TensorStore(SHAPE, 2 * pages, Layout.LAYER_FIRST)
    device.write(here, list(range(1, pages + 1)))
    hosts = {layout: TensorStore(SHAPE, 2 * pages, layout) for layout in Layout}
    source = torch.ones(pages * SHAPE.page_bytes, dtype=torch.uint8)
    target = torch.zeros_like(source)
    work: dict[str, Callable[[], object]] = {"plain copy": lambda: target.copy_(source)}
    for layout, host in hosts.items():
        work[f"backup to {layout}"] = partial(host.take, device, here, there)
        work[f"load-back from {layout}"] = partial(device.take, host, there, here)
    rates: dict[str, list[float]] = {name: [] for name in work}
    for repeat in range(repeats + 1):
        for name, copy in work.items():
            gc.collect()
            start = perf_counter()
            copy()
            if repeat:  # the first touches memory that nobody had touched
                rates[name].append(pages * SHAPE.page_bytes / 1e9 / (perf_counter() - start))
    assert all(host.damaged(there) == [] for host in hosts.values())
    return rates


def _shuffled(pages: int, chance: SplitMix) -> list[int]:
    """That many of twice as many slots, in no order."""
    slots = list(range(2 * pages))
    for last in range(len(slots) - 1, 0, -1):
        other = chance.below(last + 1)
        slots[last], slots[other] = slots[other], slots[last]
    return slots[:pages]
