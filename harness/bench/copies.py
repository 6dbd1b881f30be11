"""Pages of real bytes between the tiers, beside a plain copy of as many bytes.

The device's pool is laid out layer by layer, the host's in each of the layouts; pages lie in random
slots of both, as they do after hours. Invariant: every repeat times the plain copy and both
directions of every layout, so what the machine is doing meanwhile falls on all, and a share of the
plain copy is taken within a repeat.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import NamedTuple

import torch

from cache.kernels import Mover
from cache.layout import Layout
from cache.model import KvDtype
from cache.pinned import pin
from cache.tensors import PageShape, TensorStore
from harness.bench.sheet import Cell, Sheet, spread_of
from harness.device.layers import layers_at_once
from harness.device.movers import best_device, mover_of
from harness.engine.hardware import IoBackend
from harness.explore.prng import SplitMix

SHAPE = PageShape(layers=12, tokens=64, width=8 * 128, dtype=KvDtype.FP8_E4M3)
SEED = 1
PROMISED = {Layout.LAYER_FIRST: 0.3, Layout.PAGE_FIRST: 0.6, Layout.PAGE_FIRST_DIRECT: 0.6}
PROMISED_ON_GPU = 0.85


class Timed(NamedTuple):
    """One copy of the benchmark; `plain` names the row that it is a share of."""

    name: str
    backend: str
    plain: str
    run: Callable[[], object]

    @property
    def row(self) -> tuple[str, str]:
        return self.name, self.backend


def measure(repeats: int, *, pages: int) -> Sheet:
    """On one thread, as one copy stream would; on a GPU if there is one."""
    device = best_device()
    with _one_thread():
        rates = _rates(repeats, pages, device)
    shares = {timed: _shares(rates, timed) for timed in rates}
    gpu = device == "cuda"
    return Sheet(
        name="copies",
        title="Copies between the tiers: 64-token fp8 pages, "
        + (f"{torch.cuda.get_device_name()} and pinned memory" if gpu else "CPU memory"),
        notes=(
            f"{pages} pages of {SHAPE.layers} layers ({SHAPE.page_bytes / 2**20:.2f} MiB each) in"
            f" random slots, one thread, {repeats} repeats; the device's pool is layer_first.",
            "'of_plain_x' is how many times as fast as copying as many bytes from one tensor to"
            " another, the median of that within each repeat; what is promised: "
            + (f"{PROMISED_ON_GPU} on a GPU." if gpu else _promises()),
            "'layer by layer' is a load-back as compute waits for it: a step for each layer of all"
            f" pages, for {layers_at_once(Layout.PAGE_FIRST)} layers where tokens are told apart"
            " first.",
        ),
        columns=("copy", "backend", "median_gb_s", "min_gb_s", "max_gb_s", "of_plain_x"),
        rows=tuple(_row(timed, rates[timed], shares[timed]) for timed in rates),
    )


def _promises() -> str:
    return ", ".join(f"{layout} {share}" for layout, share in PROMISED.items()) + "."


def _row(timed: Timed, rates: list[float], shares: list[float]) -> tuple[Cell, ...]:
    spread = spread_of(rates)
    return (*timed.row, spread.median, spread.least, spread.most, spread_of(shares).median)


def _shares(rates: dict[Timed, list[float]], timed: Timed) -> list[float]:
    plain = next(taken for other, taken in rates.items() if other.name == timed.plain)
    return [rate / of for rate, of in zip(rates[timed], plain, strict=True)]


def _rates(repeats: int, pages: int, device: str) -> dict[Timed, list[float]]:
    """GB/s of each repeat."""
    work = _work(pages, device)
    rates: dict[Timed, list[float]] = {timed: [] for timed in work}
    for repeat in range(repeats + 1):
        for timed in work:
            gc.collect()
            start = perf_counter()
            timed.run()
            if device == "cuda":
                torch.cuda.synchronize()
            if repeat:  # the first touches memory that nobody had touched
                rates[timed].append(pages * SHAPE.page_bytes / 1e9 / (perf_counter() - start))
    return rates


def _work(pages: int, device: str) -> list[Timed]:
    """Plain copies first. Every row finds the bytes that it copies where the others left them."""
    chance = SplitMix(SEED)
    here, there = _shuffled(pages, chance), _shuffled(pages, chance)
    work = _plain(pages, device)
    back, load = work[0].name, work[-1].name
    backends = tuple(IoBackend) if device == "cuda" else (IoBackend.DIRECT,)
    for backend in backends:
        mover = mover_of(backend, device)
        pool = TensorStore(SHAPE, 2 * pages, Layout.LAYER_FIRST, device, mover=mover)
        pool.write(here, list(range(1, pages + 1)))
        for layout in Layout:
            host = _host(2 * pages, layout, device, mover)
            copies = {
                f"backup to {layout}": (back, partial(host.take, pool, here, there)),
                f"load-back from {layout}": (load, partial(pool.take, host, there, here)),
                f"load-back from {layout}, layer by layer": (
                    load,
                    partial(_layer_by_layer, pool, host, there, here),
                ),
            }
            work += [Timed(name, backend, *rest) for name, rest in copies.items()]
    return work


def _plain(pages: int, device: str) -> list[Timed]:
    near = torch.ones(pages * SHAPE.page_bytes, dtype=torch.uint8, device=device)
    far = torch.zeros_like(near, device="cpu")
    if device == "cpu":
        return [Timed("plain copy", "", "plain copy", partial(far.copy_, near))]
    pin(far)
    copies = {
        "plain copy to the host": partial(far.copy_, near, non_blocking=True),
        "plain copy to the device": partial(near.copy_, far, non_blocking=True),
    }
    return [Timed(name, "", name, run) for name, run in copies.items()]


def _host(slots: int, layout: Layout, device: str, mover: Mover) -> TensorStore:
    return TensorStore(SHAPE, slots, layout, pinned=device == "cuda", mover=mover)


def _layer_by_layer(
    pool: TensorStore, host: TensorStore, source: list[int], target: list[int]
) -> None:
    step = layers_at_once(host.layout)
    for layer in range(0, SHAPE.layers, step):
        pool.take_layers(host, source, target, range(layer, min(layer + step, SHAPE.layers)))


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _shuffled(pages: int, chance: SplitMix) -> list[int]:
    """That many of twice as many slots, in no order."""
    slots = list(range(2 * pages))
    for last in range(len(slots) - 1, 0, -1):
        other = chance.below(last + 1)
        slots[last], slots[other] = slots[other], slots[last]
    return slots[:pages]
