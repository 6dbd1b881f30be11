"""Who carries out a forward: takes its time, and computes if there is something to compute.

Invariant: pages and tables of the jobs in a forward do not change while it is carried out.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from harness.engine.compute import Compute, Work
from harness.engine.job import Job
from harness.engine.overlap import Ahead
from harness.explore.kernel import Kernel

NS = 1e9


class Chunk(NamedTuple):
    """Tokens [start, stop) of a job's known tokens."""

    job: Job
    start: int
    stop: int


class Step(NamedTuple):
    """The next token of a decoding job: it goes to position `written`, and is the last of the
    `generated` ones."""

    job: Job
    written: int
    generated: int


class Executor(Protocol):
    async def prefill(self, chunks: Sequence[Chunk], work: Work, ahead: Ahead) -> None:
        """Over when K, V and states of the chunks are in the jobs' pages, and what it began `ahead`
        of has landed. What was computed for a job whose table is `lost` by then means nothing."""
        ...

    async def decode(self, steps: Sequence[Step], work: Work) -> None:
        """Over when each job has its next token."""
        ...

    @property
    def computes(self) -> bool:
        """Whether it wants to know of every step of a decode."""
        ...


class Modelled:
    """Nothing is computed; a forward takes the time that `compute` says, or until what it began
    ahead of has landed if that is later."""

    computes = False

    def __init__(self, kernel: Kernel, compute: Compute) -> None:
        self._kernel = kernel
        self._compute = compute

    async def prefill(self, chunks: Sequence[Chunk], work: Work, ahead: Ahead) -> None:
        await self._kernel.pause(seconds_of(self._compute, work), "forward.prefill")
        await ahead.landed()

    async def decode(self, steps: Sequence[Step], work: Work) -> None:
        await self._kernel.pause(seconds_of(self._compute, work), "forward.decode")


def seconds_of(compute: Compute, work: Work) -> float:
    """Whole nanoseconds, so that the last bit of a machine's arithmetic decides nothing."""
    return round(compute.step_s(work) * NS) / NS
