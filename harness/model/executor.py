"""Forwards that are computed: on the real pools, in the jobs' page tables.

Invariant: what a forward reads and writes was settled before it began, so it may run beside the
world, which goes on with copies and arrivals meanwhile.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cache.keys import TOKEN_BYTES
from cache.unified import UnifiedCache
from harness.engine.compute import Work
from harness.engine.executor import Chunk, Step
from harness.engine.job import Job, token_bytes
from harness.engine.overlap import OF_NOTHING, Ahead
from harness.model.network import Network, Ready
from harness.model.numerics import Numerics, Question, Wrong, origins
from harness.model.pieces import Piece, Vocabulary, piece_of
from harness.model.sampling import Decoding, Sampler
from harness.model.store import device_stores

T = TypeVar("T")


class Launcher(Protocol):
    """Where work is done, and what the world's clock makes of it."""

    async def run(self, name: str, work: Work, action: Callable[[Ready], T], ahead: Ahead) -> T:
        """The forward `action`, which is told when layers are ready; over when it is, and what it
        began `ahead` of has landed."""
        ...

    def aside(self, action: Callable[[], T], then: Callable[[T], None]) -> None:
        """Something that nobody waits for; `then` is told in the world's thread."""
        ...


class ModelExecutor:
    """`on_wrong` is told what N1 finds; without `numerics` nothing is checked."""

    computes = True

    def __init__(
        self,
        cache: UnifiedCache,
        network: Network,
        vocabulary: Vocabulary,
        sampler: Sampler,
        launcher: Launcher,
        *,
        numerics: Numerics | None,
        on_wrong: Callable[[Wrong], None],
    ) -> None:
        self._cache = cache
        self._network = network
        self._vocabulary = vocabulary
        self._sampler = sampler
        self._launcher = launcher
        self._numerics = numerics
        self._on_wrong = on_wrong
        self._rows: dict[int, dict[int, Tensor]] = {}  # of sampled jobs: logits by position
        self._stores = device_stores(cache)

    async def prefill(self, chunks: Sequence[Chunk], work: Work, ahead: Ahead) -> None:
        pieces = [self._chunk_piece(chunk) for chunk in chunks]
        logits = await self._run("forward.prefill", work, pieces, ahead)
        for (job, _, stop), piece, rows in zip(chunks, pieces, logits, strict=True):
            assert job.table is not None
            if stop < job.key.tokens or job.table.lost:
                continue
            self._take_token(job, rows[-1], stop, job.generated)
            if self._numerics is not None and self._numerics.samples(job.number):
                known = self._rows.pop(job.number, {})
                known = {at: row for at, row in known.items() if at < stop}
                tokens = self._tokens(job, 0, stop)
                self._ask(job, tokens, {**known, stop - 1: rows[-1].cpu()}, piece)

    async def decode(self, steps: Sequence[Step], work: Work) -> None:
        pieces = [self._step_piece(step) for step in steps]
        logits = await self._run("forward.decode", work, pieces, OF_NOTHING)
        for (job, written, generated), piece, rows in zip(steps, pieces, logits, strict=True):
            self._take_token(job, rows[-1], written + 1, generated)
            if self._numerics is None or not self._numerics.samples(job.number):
                continue
            known = self._rows.setdefault(job.number, {})
            known[written] = rows[-1].cpu()
            if generated + 1 >= job.output_len:
                tokens = self._tokens(job, 0, written + 1)
                self._ask(job, tokens, self._rows.pop(job.number), piece)

    def forget(self, job: Job) -> None:
        """It has ended, with all its tokens or without."""
        self._rows.pop(job.number, None)

    # -- pieces --------------------------------------------------------------------------------

    def _chunk_piece(self, chunk: Chunk) -> Piece:
        job, start, stop = chunk
        assert job.table is not None
        piece = piece_of(self._cache, job.table, self._tokens(job, start, stop), start)
        return piece if stop == job.key.tokens else piece._replace(logits_from=stop)

    def _step_piece(self, step: Step) -> Piece:
        job, written, _ = step
        assert job.table is not None
        tokens = self._tokens(job, written, written + 1)
        return piece_of(self._cache, job.table, tokens, written)

    def _tokens(self, job: Job, start: int, stop: int) -> NDArray[np.int32]:
        """Of prompt and answer, as much of the latter as is decided."""
        data = job.key.data[: job.prompt_len * TOKEN_BYTES] + job.output
        return self._vocabulary.rows(data, start, stop, job.key.namespace)

    async def _run(self, name: str, work: Work, pieces: list[Piece], ahead: Ahead) -> list[Tensor]:
        def forward(ready: Ready) -> list[Tensor]:
            return self._network.forward(pieces, ready)

        return await self._launcher.run(name, work, forward, ahead)

    def _take_token(self, job: Job, row: Tensor, position: int, generated: int) -> None:
        """The token at `position` is the answer's token number `generated`."""
        if self._sampler.decoding is Decoding.TRACE:
            return
        by_token = self._vocabulary.by_token(row, job.key.namespace)
        token = self._sampler.next(by_token, job.name, position)
        at = generated * TOKEN_BYTES
        fresh = token_bytes(np.array([token], dtype=np.int32))
        job.output = job.output[:at] + fresh + job.output[at + TOKEN_BYTES :]

    # -- N1 ------------------------------------------------------------------------------------

    def _ask(
        self, job: Job, tokens: NDArray[np.int32], rows: dict[int, Tensor], piece: Piece
    ) -> None:
        numerics, table = self._numerics, job.table
        assert numerics is not None
        assert table is not None
        size = self._cache.config.page_size
        question = Question(
            name=job.name,
            tokens=tokens,
            rows=rows,
            held=numerics.hold(piece, self._stores),
            origin=origins(table, size),
        )
        self._launcher.aside(lambda: numerics.judge(question), self._told)

    def _told(self, wrong: Wrong | None) -> None:
        if wrong is not None:
            self._on_wrong(wrong)
