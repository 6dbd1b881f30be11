"""One request's life inside the server.

Invariant: `known` tokens have been decided (prompt and generated), and every one of them but the
last is in the KV cache while the job decodes.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from cache.keys import TOKEN_BYTES, Key
from cache.storage_moves import Prefetch
from cache.table import PageTable
from workloads.request import Request


class JobState(Enum):
    PREFETCHING = "prefetching"  # waits for storage before it may queue
    QUEUED = "queued"
    ADMITTING = "admitting"
    LOADING = "loading"  # admitted; waits for copies
    PREFILL = "prefill"
    DECODE = "decode"
    DONE = "done"


class JobStatus(Enum):
    COMPLETED = "completed"
    REJECTED = "rejected"
    ABORTED = "aborted"


@dataclass(eq=False, slots=True)
class Job:
    request: Request
    name: str
    number: int  # order of arrival
    scheduled_s: float
    sent_s: float
    key: Key
    output: bytes
    output_len: int
    state: JobState = JobState.QUEUED
    status: JobStatus | None = None
    error: str = ""
    table: PageTable | None = None
    prefetch: Prefetch | None = None
    generated: int = 0
    abort_asked: bool = False
    chunks: int = 0  # prefilled so far
    requeues: int = 0  # after a failed load-back or a retraction
    preemptions: int = 0  # retractions for the sake of an older job
    aborted_in: JobState = JobState.DONE  # where the client's leaving found it
    admitted_s: float = -1.0
    matched_s: float = -1.0
    loaded_s: float = -1.0
    first_token_s: float = -1.0
    last_token_s: float = -1.0  # as of when it last joined or left the decoding batch
    end_s: float = -1.0
    device_tokens: int = 0  # of the first admission's hit
    host_tokens: int = 0
    storage_tokens: int = 0  # that came from storage for it, and are not among the host's
    # While it decodes: where its counters stood at the decoder's tick `joined`.
    joined: int = 0
    joined_written: int = 0
    joined_generated: int = 0

    @property
    def prompt_len(self) -> int:
        return self.request.prompt_len

    @property
    def priority(self) -> int:
        return self.request.priority

    @property
    def prefill_left(self) -> int:
        """Tokens whose KV is still to be computed before the next token can be generated."""
        assert self.table is not None
        return self.key.tokens - self.table.written

    @property
    def order(self) -> tuple[int, int]:
        """Higher priority first, then first come first served."""
        return (-self.request.priority, self.number)

    def know(self, generated: int) -> None:
        """Lengthen the key to the prompt and the first `generated` tokens of the answer."""
        have = self.key.tokens - self.prompt_len
        if generated > have:
            more = self.output[have * TOKEN_BYTES : generated * TOKEN_BYTES]
            self.key = self.key.extended(more)


def token_bytes(tokens: "np.typing.NDArray[np.int32]") -> bytes:
    """Little-endian int32, whatever this machine's order."""
    return tokens.astype("<i4", copy=False).tobytes()
