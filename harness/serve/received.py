"""A request that came over the network, and its two-sided record while it is open."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.engine.job import Job, JobStatus
from workloads.request import Request
from workloads.tokens import DEFAULT_VOCAB_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Received(Request):
    """`data` are the prompt's tokens, little-endian int32; the spans only say how many there are.

    `arrived` is when the last byte of it had come, on the monotonic clock."""

    data: bytes
    arrived: float

    def prompt_tokens(self, vocab_size: int = DEFAULT_VOCAB_SIZE) -> npt.NDArray[np.int32]:
        """The tokens that came; they were checked against the vocabulary then."""
        return np.frombuffer(self.data, "<i4").astype(np.int32)


class Cached(tuple[int, int, int]):
    """Prompt tokens that were hits, by tier: device, host, storage."""

    __slots__ = ()


class Ticket:
    """One open request. The engine's thread writes, the server's reads.

    `generated` tokens of `output` can be sent; `ended` is set after everything else. `changed()` is
    called by the engine's thread after either has changed; it must be quick."""

    __slots__ = ("_job", "cached", "changed", "ended", "error", "generated", "received")

    def __init__(self, received: Received, changed: Callable[["Ticket"], None]) -> None:
        self.received = received
        self.changed = changed
        self.generated = 0
        self.cached = Cached((0, 0, 0))
        self.ended: JobStatus | None = None
        self.error = ""
        self._job: Job | None = None

    @property
    def output(self) -> bytes:
        """The answer's tokens; what is beyond `generated` has not been decided yet."""
        return self._job.output if self._job is not None else b""

    def begin(self, job: Job) -> None:
        self._job = job

    def advance(self, generated: int) -> None:
        """`generated` tokens are known."""
        job = self._job
        assert job is not None
        if not self.generated:
            self.cached = Cached((job.device_tokens, job.host_tokens, job.storage_tokens))
        self.generated = generated
        self.changed(self)

    def end(self, status: JobStatus | None, error: str) -> None:
        """It is over; a status of None means that the engine is."""
        self.error = error
        self.ended = status or JobStatus.ABORTED
        self.changed(self)
