"""What a forward and a copy take, in model time.

`NullCompute` is for the cost of the cache alone, `RooflineCompute` for a model on hardware.
Invariant: a compute is a pure function of its settings and its arguments, and every time it gives
is above 0, so that a virtual clock always goes forward.
"""

import enum
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from cache.config import Component
from cache.layout import Layout
from cache.model import KvDtype, ModelShape, StateDtype
from harness.engine.hardware import COPY_PATHS, Hardware, IoBackend, fragments

NULL_TICK_S = 1e-6


class Direction(enum.IntEnum):
    """Which way a copy goes."""

    DEVICE_TO_HOST = 0
    HOST_TO_DEVICE = 1


class Work(NamedTuple):
    """One batched forward, in sums over its requests, so that its cost is found in O(1).

    prefill_tokens: tokens of all prefill chunks.
    prefill_context_tokens: sum over those tokens of the positions that each attends to.
    prefill_read_tokens: sum over the chunks of the context at their end, which is read once.
    prefill_window_tokens, prefill_window_read_tokens: the same in layers that slide.
    prefill_requests: chunks.
    decode_requests: requests that get one token each.
    decode_context_tokens: sum over those of the context that they attend to.
    decode_window_tokens: the same in layers that slide; 0 where it is not known.
    """

    prefill_tokens: int = 0
    prefill_context_tokens: int = 0
    prefill_read_tokens: int = 0
    prefill_window_tokens: int = 0
    prefill_window_read_tokens: int = 0
    prefill_requests: int = 0
    decode_requests: int = 0
    decode_context_tokens: int = 0
    decode_window_tokens: int = 0


def prefill_work(chunks: Iterable[tuple[int, int]], window: int) -> Work:
    """The prefill of `chunks`, each a (start, stop) of token positions in its own request.

    Tokens of one chunk see each other causally, and all before its start; `window` 0 means that
    nothing is out of sight.
    """
    tokens = context = read = in_window = window_read = count = 0
    for start, stop in chunks:
        new = stop - start
        # Tokens before this many see the whole context, the others a window of it.
        growing = min(new, max(0, window - start)) if window else new
        tokens += new
        context += _triangle(start, new)
        read += stop
        in_window += _triangle(start, growing) + (new - growing) * window
        window_read += min(start, window) + new if window else stop
        count += 1
    return Work(tokens, context, read, in_window, window_read, count)


def _triangle(start: int, count: int) -> int:
    """What `count` tokens from `start` attend to, each itself and all before it."""
    return count * start + count * (count + 1) // 2


class Compute(Protocol):
    """What a scheduler asks for times; seconds, above 0."""

    def step_s(self, work: Work) -> float:
        """Seconds that one forward over `work` takes."""

    def copy_s(self, num_bytes: int, pages: int, direction: Direction) -> float:
        """Seconds that one copy of `pages` pages, `num_bytes` in all on one rank, takes."""

    def agreement_s(self) -> float:
        """Seconds that ranks take to agree on one number."""


class Parts(NamedTuple):
    """Seconds of one step. The longer of each pair is what a roofline takes."""

    matrix_s: float
    matrix_byte_s: float
    attend_s: float
    attend_byte_s: float


class NullCompute:
    """Nothing costs anything but one tick, which keeps events apart."""

    def step_s(self, work: Work) -> float:
        return NULL_TICK_S

    def copy_s(self, num_bytes: int, pages: int, direction: Direction) -> float:
        return NULL_TICK_S

    def agreement_s(self) -> float:
        return NULL_TICK_S


class RooflineCompute:
    """A model on one of `tp` ranks: each part takes the longer of its arithmetic and its bytes.

    Two parts follow one another: the matrices (weights read once a step, of the experts only those
    that the batch is expected to reach) and attention (full layers over the whole context, sliding
    ones over the window, recurrent ones over a state that is read and written once for each request
    and updated and read for each token). Ranks share the arithmetic, the weights and the KV heads
    evenly; their reductions cost a latency. Latent attention makes a prefix's keys and values again
    in every prefill that continues it, and decodes over the rows as they are stored, which every
    rank reads whole. Not counted: activations, norms, and the reductions' bytes.

    Sliding layers slide whatever the cache does: where work does not say what is in the window
    (the cache keeps no SWA component), it is taken as min(context, tokens x window), the most that
    it can be.
    """

    def __init__(
        self,
        shape: ModelShape,
        hardware: Hardware,
        *,
        tp: int,
        kv_dtype: KvDtype,
        page_size: int,
        io_backend: IoBackend = IoBackend.KERNEL,
        mem_layout: Layout = Layout.PAGE_FIRST,
        state_dtype: StateDtype = StateDtype.FLOAT32,
    ) -> None:
        """Raises `ConfigError` when `tp` does not divide the heads."""
        shape.check_tp(tp)
        self._window = shape.window
        self._set_matrices(shape, hardware, tp)
        self._set_attention(shape, hardware, tp, kv_dtype)
        self._set_recurrence(shape, hardware, tp, state_dtype)
        self._layout = mem_layout
        self._agreement_s = hardware.agreement_s
        path = COPY_PATHS[io_backend]
        self._copy_launch_s, self._fragment_s = path.launch_s, path.fragment_s
        links = (hardware.to_host_bandwidth, hardware.to_device_bandwidth)
        self._copy_byte_s = tuple(1 / (link * path.efficiency) for link in links)
        self._copy_rates = tuple(
            hardware.copy_rate(io_backend, mem_layout, direction.name) for direction in Direction
        )
        token_bytes = self._full_kv_bytes + self._swa_kv_bytes
        layers = shape.full.buffers * shape.full.layers
        if shape.swa is not None:
            layers += shape.swa.buffers * shape.swa.layers
        self._layer_fragment_bytes = page_size * token_bytes / layers

    @property
    def overhead_s(self) -> float:
        """The part of every step that neither arithmetic nor bytes explain."""
        return self._overhead_s

    def step_s(self, work: Work) -> float:
        if not work.prefill_tokens + work.decode_requests:
            return self._overhead_s
        matrix_s, matrix_byte_s, attend_s, attend_byte_s = self.parts(work)
        sequences = work.prefill_requests + work.decode_requests
        return (
            self._overhead_s
            + sequences * self._sequence_s
            + (matrix_s if matrix_s > matrix_byte_s else matrix_byte_s)
            + (attend_s if attend_s > attend_byte_s else attend_byte_s)
        )

    def parts(self, work: Work) -> Parts:
        """What a step's arithmetic and its bytes would take, each alone."""
        (
            prefill, context, read, in_window, window_read, chunks,
            decodes, decode_context, decode_window,
        ) = work  # fmt: skip
        tokens = prefill + decodes
        matrix_s = tokens * self._token_flop_s + (chunks + decodes) * self._head_flop_s
        matrix_byte_s = self._dense_byte_s
        if self._expert_byte_s:
            matrix_byte_s += self._expert_byte_s * (1.0 - self._expert_missed**tokens)
        attend_flop_s = (context + decode_context) * self._full_flop_s
        attend_byte_s = (read + decode_context + decodes) * self._full_byte_s
        if self._expand_flop_s:
            attend_flop_s += decode_context * self._absorbed_flop_s
            attend_flop_s += (read - prefill) * self._expand_flop_s
        window = self._window
        if window:
            decode_window = decode_window or min(decode_context, decodes * window)
            in_window = min(in_window, prefill * window) + decode_window
            window_read = min(window_read, chunks * window + prefill) + decode_window + decodes
            attend_flop_s += in_window * self._swa_flop_s
            attend_byte_s += window_read * self._swa_byte_s
        if self._state_byte_s:
            attend_flop_s += tokens * self._state_flop_s
            attend_byte_s += (chunks + decodes) * self._state_byte_s
        return Parts(matrix_s, matrix_byte_s, attend_flop_s, attend_byte_s)

    def copy_s(self, num_bytes: int, pages: int, direction: Direction) -> float:
        measured = self._copy_rates[direction]
        if measured is not None:
            return measured.begin_s + num_bytes / measured.bandwidth
        pieces = fragments(
            self._layout, pages=pages, layer_fragments=num_bytes / self._layer_fragment_bytes
        )
        return (
            self._copy_launch_s
            + pieces * self._fragment_s
            + num_bytes * self._copy_byte_s[direction]
        )

    def agreement_s(self) -> float:
        return self._agreement_s

    def _set_matrices(self, shape: ModelShape, hardware: Hardware, tp: int) -> None:
        """Seconds per token, per sampled token and per step, without attention."""
        peak = hardware.fp8_flops if shape.weight_bits == 8 else hardware.bf16_flops
        flops = peak * hardware.mfu * tp
        bandwidth = hardware.memory_bandwidth * hardware.mbu * tp
        body = shape.active_parameters - shape.head_parameters
        expert_bytes = shape.expert_parameters * shape.expert_bits / 8
        # Of the embedding a step reads a few rows, of the output head everything.
        unread_bytes = 2 * (shape.embedding_parameters - shape.head_parameters)
        self._token_flop_s = 2 * body / flops
        self._head_flop_s = 2 * shape.head_parameters / flops
        self._dense_byte_s = (shape.weight_bytes - unread_bytes - expert_bytes) / bandwidth
        self._expert_byte_s = expert_bytes / bandwidth
        self._expert_missed = 1 - shape.experts_active / shape.experts if shape.experts else 1.0
        reductions = 2 * shape.layers if tp > 1 else 0
        self._overhead_s = hardware.step_overhead_s + reductions * hardware.allreduce_s
        self._sequence_s = hardware.sequence_overhead_s

    def _set_attention(
        self, shape: ModelShape, hardware: Hardware, tp: int, kv_dtype: KvDtype
    ) -> None:
        """Seconds per token attended to, and per token read or written. Attention computes in 16
        bits whatever the cache holds."""
        flops = hardware.bf16_flops * (hardware.attention_mfu or hardware.mfu)
        bandwidth = hardware.memory_bandwidth * (hardware.attention_mbu or hardware.mbu)
        heads = shape.query_heads / tp
        kinds = (shape.full, shape.swa)
        operations = [kind.prefill_operations(heads) if kind else 0.0 for kind in kinds]
        self._full_flop_s, self._swa_flop_s = (count / flops for count in operations)
        # What a decode over latent rows takes on top, and what a prefill makes of a cached one.
        self._absorbed_flop_s = shape.full.decode_operations(heads) / flops - self._full_flop_s
        self._expand_flop_s = shape.full.expand_operations(heads) / (
            hardware.bf16_flops * hardware.mfu
        )
        self._full_kv_bytes = shape.token_bytes(Component.FULL, tp=tp, dtype=kv_dtype)
        self._swa_kv_bytes = shape.token_bytes(Component.SWA, tp=tp, dtype=kv_dtype)
        self._full_byte_s = self._full_kv_bytes / bandwidth
        self._swa_byte_s = self._swa_kv_bytes / bandwidth

    def _set_recurrence(
        self, shape: ModelShape, hardware: Hardware, tp: int, dtype: StateDtype
    ) -> None:
        """Seconds per token and per request. A token updates its state with an outer product and
        reads it with a vector: decay, add, multiply-add, two operations for each element."""
        flops = hardware.bf16_flops * (hardware.attention_mfu or hardware.mfu)
        bandwidth = hardware.memory_bandwidth * (hardware.attention_mbu or hardware.mbu)
        recurrent = shape.recurrent
        elements = recurrent.elements(tp) if recurrent else 0
        self._state_flop_s = 6 * elements / flops
        moved = 2 * shape.state_bytes(tp=tp, dtype=dtype)
        self._state_byte_s = moved / bandwidth
