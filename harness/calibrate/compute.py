"""Forwards of the small model: by tokens, context and requests.

What they take is laid on the terms of a roofline: a step, each of its requests, arithmetic of the
matrices, arithmetic of attention, bytes that attention reads. The terms are fitted together, each
sample's error counted as a share of its own time. Of arithmetic the peak is what matrices reached
(`mfu` is 1); the memory's is left as assumed, for a model this small stays in a processor's caches,
and `attention_mbu` says how slowly attention gathers its pages.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from cache.config import CacheConfig, Component, ConfigError, PoolPages, Tier
from cache.model import ModelShape
from harness.calibrate.findings import Findings, Sample, Settings, samples_of
from harness.engine.compute import RooflineCompute, Work, prefill_work
from harness.engine.hardware import Hardware, base_of
from harness.model.network import Network
from harness.model.pieces import Piece
from harness.model.store import ModelStore, store_maker
from harness.model.weights import check_shape, make_weights

NAME = "compute"
SEED = 1
LARGEST = 200_000_000  # parameters; larger models are not computed here
PREFILLS = ((32, 0), (128, 0), (512, 0), (128, 1024), (512, 1024), (32, 2048))  # new, before
DECODES = ((1, 256), (1, 2048), (4, 512), (16, 256), (16, 1024))  # requests, context of each
UNIT = Hardware(
    name="unit",
    source="one operation or byte a second: times are counts",
    memory_bytes=1,
    memory_bandwidth=1.0,
    bf16_flops=1.0,
    fp8_flops=1.0,
    to_host_bandwidth=1.0,
    to_device_bandwidth=1.0,
    mfu=1.0,
    mbu=1.0,
    step_overhead_s=1.0,
)


class Fitted(NamedTuple):
    """Seconds of a step, of a request, of an operation in matrices and in attention, of a byte."""

    step_s: float
    sequence_s: float
    matrix_s: float
    attend_s: float
    byte_s: float


def measure(settings: Settings) -> Findings:
    """On one thread where there is no GPU, as a soak computes; nothing where the model is not one
    that can be computed here."""
    shape = settings.shape
    try:
        check_shape(shape)
    except ConfigError:
        return Findings({}, ())
    if shape.total_parameters > LARGEST or settings.tp > 1:
        return Findings({}, ())
    bench = _Bench(settings)
    work: dict[str, Callable[[int], object]] = {}
    amounts: dict[str, Work] = {}
    for new, before in PREFILLS:
        name = f"prefill {new} tokens after {before}"
        work[name] = partial(bench.prefill, new, before)
        amounts[name] = prefill_work([(before, before + new)], shape.window)
    for requests, context in DECODES:
        name = f"decode {requests} requests after {context}"
        work[name] = partial(bench.decode, requests, context)
        amounts[name] = Work(decode_requests=requests, decode_context_tokens=requests * context)
    threads = torch.get_num_threads()
    if settings.device == "cpu":
        torch.set_num_threads(1)
    try:
        taken = samples_of(settings.repeats, work)
    finally:
        torch.set_num_threads(threads)
    return findings(shape, settings, taken, amounts)


class Terms:
    """What a roofline is made of, for forwards of one model."""

    def __init__(self, settings: Settings) -> None:
        self._base = base_of(settings.device)
        self._counts = RooflineCompute(
            settings.shape, UNIT, tp=1, kv_dtype=settings.kv_dtype, page_size=settings.page_size
        )

    def of(self, work: Work) -> tuple[float, ...]:
        """How much of each there is."""
        return _terms(self._counts, work)

    def fields(
        self,
        rows: NDArray[np.float64],
        seconds: NDArray[np.float64],
        weights: NDArray[np.float64] | None = None,
    ) -> dict[str, float]:
        """Of the preset that gives `seconds` for these amounts, a row a forward."""
        return _fields(Fitted(*fit(rows, seconds, weights).tolist()), self._base)


def findings(
    shape: ModelShape, settings: Settings, taken: Mapping[str, Sample], amounts: Mapping[str, Work]
) -> Findings:
    """The fields of a preset that give these times."""
    terms = Terms(settings)
    names = list(taken)
    rows = np.array([terms.of(amounts[name]) for name in names])
    seconds = np.array([taken[name].median_s for name in names])
    hardware = terms.fields(rows, seconds)
    roofline = RooflineCompute(
        shape,
        replace(base_of(settings.device), **hardware),  # type: ignore[arg-type]
        tp=1,
        kv_dtype=settings.kv_dtype,
        page_size=settings.page_size,
    )
    misfits = {
        name: abs(roofline.step_s(amounts[name]) / taken[name].median_s - 1) for name in names
    }
    return Findings(hardware, list(taken.values()), misfits)


def fit(
    rows: NDArray[np.float64],
    seconds: NDArray[np.float64],
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Amounts of no less than 0 for the columns of `rows`, least squares of relative errors, which
    count as much as `weights` say. A term that would be negative is left out, the worst first."""
    each = np.sqrt(np.ones(len(seconds)) if weights is None else weights / weights.mean())
    scaled = rows * (each / seconds)[:, None]
    kept = [column for column in range(rows.shape[1]) if rows[:, column].any()]
    found = np.zeros(rows.shape[1])
    while kept:
        norms = np.linalg.norm(scaled[:, kept], axis=0)
        solved, *_ = np.linalg.lstsq(scaled[:, kept] / norms, each, rcond=None)
        if solved.min() >= 0:
            found[kept] = solved / norms
            break
        kept.pop(int(solved.argmin()))
    return found


def _terms(counts: RooflineCompute, work: Work) -> tuple[float, ...]:
    """How much of each term a step has. A decode's attention is bound by its bytes, a prefill's by
    its arithmetic."""
    parts = counts.parts(work)
    sequences = work.prefill_requests + work.decode_requests
    decoding = work.decode_requests > 0
    return (
        1.0,
        sequences,
        parts.matrix_s,
        0.0 if decoding else parts.attend_s,
        parts.attend_byte_s if decoding else 0.0,
    )


def _fields(fitted: Fitted, base: Hardware) -> dict[str, float]:
    """Peaks and shares that were reached. A term too small to be seen makes no difference."""
    matrix = 1 / max(fitted.matrix_s, 1e-18)
    return {
        "bf16_flops": matrix,
        "fp8_flops": matrix,
        "mfu": 1.0,
        "attention_mfu": max(fitted.matrix_s, 1e-18) / max(fitted.attend_s, 1e-18),
        "attention_mbu": 1 / max(fitted.byte_s, 1e-15) / base.memory_bandwidth,
        "step_overhead_s": max(fitted.step_s, 1e-9),
        "sequence_overhead_s": max(fitted.sequence_s, 1e-12),
    }


class _Bench:
    """A model over pools of its own. Every request has as many pages as the longest."""

    def __init__(self, settings: Settings) -> None:
        shape, size = settings.shape, settings.page_size
        longest = max(max(a + b for a, b in PREFILLS), max(c for _, c in DECODES) + 1)
        self._size, self._window = size, shape.window
        self._pages = -(-longest // size)
        self._device = settings.device
        most = max(requests for requests, _ in DECODES)
        slots = most * self._pages
        config = CacheConfig(
            page_size=size,
            full=PoolPages(slots, 0),
            swa=PoolPages(slots, 0) if shape.window else None,
            window=shape.window,
            mamba=PoolPages(max(most, 3), 0) if shape.recurrent else None,
        )
        make = store_maker(shape, config, settings.kv_dtype, device=settings.device)
        stores: dict[Component, ModelStore] = {}
        for component in config.components:
            store = make(Tier.DEVICE, component, config.pools(component).device)
            assert isinstance(store, ModelStore)
            stores[component] = store
        weights = make_weights(shape, SEED, settings.device)
        self._recurrent = shape.recurrent is not None
        self._vocabulary = shape.vocab_size
        self._network = Network(shape, weights, config, stores)
        self.prefill(longest - 1, 0, 0)

    def prefill(self, new: int, before: int, repeat: int) -> None:
        self._forward([self._piece(0, before, before + new)])

    def decode(self, requests: int, context: int, repeat: int) -> None:
        self._forward([self._piece(n, context, context + 1) for n in range(requests)])

    def _forward(self, pieces: list[Piece]) -> None:
        logits = self._network.forward(pieces)
        if self._device != "cpu":
            float(logits[0][0, 0])  # waits for the device

    def _piece(self, request: int, start: int, stop: int) -> Piece:
        first = request * self._pages
        pages = [first + page for page in range(-(-stop // self._size))]
        low = max(0, start - self._window) // self._size if self._window else len(pages)
        tokens = np.arange(start, stop, dtype=np.int64) * 7919 % self._vocabulary
        return Piece(
            tokens=tokens.astype(np.int32),
            start=start,
            full=pages,
            swa=pages[low:],
            swa_start=low,
            state=request if self._recurrent else None,
            kept=None,
            boundary=0,
            logits_from=stop - 1,
        )
