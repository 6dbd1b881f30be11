"""Copies between the tiers: by size, direction, layout and backend.

A copy of n bytes takes a time to begin and a time for each byte; both come from samples of several
sizes, so that the largest misfit is known and kept. Pages move on over the pools from repeat to
repeat, so that a processor's cache does not pass for memory.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import torch

from cache.layout import Layout
from cache.pinned import pin
from cache.tensors import PageShape, TensorStore
from harness.calibrate.findings import Findings, Sample, Settings, samples_of
from harness.device.movers import mover_of
from harness.engine.compute import Direction
from harness.engine.hardware import CopyRate, IoBackend

NAME = "copies"
PAGES = (1, 4, 16, 64)  # of one copy, as far as two of the largest fit the pools
POOL_BYTES = 512 << 20
LEAST_SLOTS, MOST_SLOTS = 16, 2 * PAGES[-1] + 1
LINK_BYTES = 64 << 20
LINKS = {direction: f"link {direction.name.lower()}" for direction in Direction}
Work = Callable[[int], object]  # of one repeat, by its number


class Way(NamedTuple):
    """What is measured for itself; the time depends on the size besides."""

    backend: IoBackend
    layout: Layout
    direction: Direction

    def __str__(self) -> str:
        return f"{self.backend} {self.layout} {self.direction.name.lower()}"


def measure(settings: Settings) -> Findings:
    """On one thread, as one stream would."""
    shape = page_shape(settings)
    slots = min(MOST_SLOTS, max(LEAST_SLOTS, POOL_BYTES // shape.page_bytes))
    sizes = [pages for pages in PAGES if 2 * pages < slots]
    work = {name: partial(_whole, *_link(way, settings)) for way, name in LINKS.items()}
    copies = _copies(settings, shape, slots)
    for way, copy in copies.items():
        work |= {f"{way} {pages} pages": partial(copy, pages) for pages in sizes}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        taken = samples_of(settings.repeats, work)
    finally:
        torch.set_num_threads(threads)
    return _findings(taken, list(copies), {pages: pages * shape.page_bytes for pages in sizes})


def page_shape(settings: Settings) -> PageShape:
    """A page of the layers that attend to everything; rows of latents count as two halves."""
    full = settings.shape.full or settings.shape.swa
    assert full is not None, "a model without attention has no pages"
    heads = max(1, full.kv_heads // settings.tp)
    width = heads * (full.key_dim + full.value_dim) // 2
    return PageShape(full.layers, settings.page_size, width, settings.kv_dtype)


def fit(points: Sequence[tuple[int, float]]) -> tuple[float, float, float]:
    """Seconds to begin, bytes per second, and the largest misfit as a share of the time, for
    (bytes, seconds) of which no relative error counts more than another. Both are above 0."""
    # Weighted least squares of seconds = begin + bytes x each, with weights 1 / seconds squared.
    weighted = [(1 / seconds**2, size, seconds) for size, seconds in points]
    total = sum(weight for weight, _, _ in weighted)
    mean_x = sum(weight * x for weight, x, _ in weighted) / total
    mean_y = sum(weight * y for weight, _, y in weighted) / total
    across = sum(weight * (x - mean_x) ** 2 for weight, x, _ in weighted)
    along = sum(weight * (x - mean_x) * (y - mean_y) for weight, x, y in weighted)
    each = along / across
    begin = mean_y - each * mean_x
    if begin <= 0 or each <= 0:  # noise has bent the line: through the origin, then
        begin, each = 1e-9, sum(y / x for x, y in points) / len(points)
    worst = max(abs(begin + each * x - y) / y for x, y in points)
    return begin, 1 / each, worst


def _findings(taken: dict[str, Sample], ways: Sequence[Way], sizes: dict[int, int]) -> Findings:
    rates: list[CopyRate] = []
    misfits: dict[str, float] = {}
    for way in ways:
        points = [(size, taken[f"{way} {pages} pages"].median_s) for pages, size in sizes.items()]
        begin_s, bandwidth, misfits[str(way)] = fit(points)
        backend, layout, direction = way
        rates.append(CopyRate(backend, layout, direction.name, begin_s, bandwidth))
    to_host, to_device = (LINK_BYTES / taken[name].median_s for name in LINKS.values())
    return Findings(
        {"to_host_bandwidth": to_host, "to_device_bandwidth": to_device, "copies": tuple(rates)},
        list(taken.values()),
        misfits,
    )


def _link(direction: Direction, settings: Settings) -> tuple[torch.Tensor, torch.Tensor]:
    """Where a plain copy goes and where it comes from; the host's side is pinned for a GPU."""
    near = torch.ones(LINK_BYTES, dtype=torch.uint8, device=settings.device)
    far = torch.ones(LINK_BYTES, dtype=torch.uint8)
    if near.is_cuda:
        pin(far)
    return (far, near) if direction is Direction.DEVICE_TO_HOST else (near, far)


def _copies(settings: Settings, shape: PageShape, slots: int) -> "dict[Way, Callable[..., None]]":
    """By way, what copies so many pages in a repeat of that number."""
    gpu = torch.device(settings.device).type == "cuda"
    found: dict[Way, Callable[..., None]] = {}
    for backend in settings.backends if gpu else (IoBackend.DIRECT,):
        mover = mover_of(backend, settings.device)
        pool = TensorStore(shape, slots, Layout.LAYER_FIRST, settings.device, mover=mover)
        for layout in settings.layouts:
            host = TensorStore(shape, slots, layout, pinned=gpu, mover=mover)
            to_host, to_device = product((backend,), (layout,), Direction)
            found[Way(*to_host)] = partial(_copy, host, pool)
            found[Way(*to_device)] = partial(_copy, pool, host)
    return found


def _copy(there: TensorStore, here: TensorStore, pages: int, number: int) -> None:
    """Every second page from where the last repeat ended: pages lie apart, after hours."""
    first = 2 * pages * number
    source = [(first + 2 * page) % here.capacity for page in range(pages)]
    target = [(first + 2 * page + 1) % there.capacity for page in range(pages)]
    there.take(here, source, target)
    _settle(there.bytes, here.bytes)


def _whole(there: torch.Tensor, here: torch.Tensor, number: int) -> None:
    there.copy_(here, non_blocking=True)
    _settle(there, here)


def _settle(*tensors: torch.Tensor) -> None:
    if any(tensor.is_cuda for tensor in tensors):
        torch.cuda.synchronize()
