"""What the server answers: what a model decides, or tokens that depend on the prompt and on what
was read from the cache.

Without a model an answer is a run of pseudo-random tokens named by the prompt, as greedy decoding
would be: the same prompt, the same answer. Pages of the prefix that attention read and that hold
anything but what they should change the name, and so the answer: a cache that serves wrong content
is seen by a client that compares.
"""

from hashlib import blake2b
from typing import Protocol

from cache.contract import Reading
from cache.observer import Observer
from cache.table import PageTable
from harness.engine.job import Job, token_bytes
from harness.serve.tokenizer import FIRST_WORD
from workloads.tokens import Span, stream_seed, synthesize

Wrong = tuple[tuple[int, int], ...]  # page, fingerprint that was read


class Answers(Protocol):
    """Told of every job."""

    def begin(self, job: Job) -> None:
        """Before it is handed to the scheduler: what is known of its answer."""

    def end(self, job: Job) -> None: ...


class Decided:
    """Answers that are decided token by token, by what computes them."""

    def begin(self, job: Job) -> None:
        job.output = b""

    def end(self, job: Job) -> None: ...


class Named(Observer):
    """Answers without a model. Told of every read before a job's first token, too."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._jobs: dict[str, Job] = {}

    def begin(self, job: Job) -> None:
        """`job` gets the answer of a cache that is right; its name is its own."""
        self._jobs[job.name] = job
        job.output = self._tokens(job, ())

    def end(self, job: Job) -> None:
        self._jobs.pop(job.name, None)

    def reading(self, table: PageTable, tokens: int, reading: Reading) -> None:
        job = self._jobs.get(table.holder)
        if job is None or job.generated:
            return
        prints = job.key.prints(len(reading.full))[: len(reading.full)]
        swa = prints[reading.swa_start :]
        if reading.full == prints and (not reading.swa or reading.swa == swa):
            return
        pairs = [*enumerate(zip(reading.full, prints, strict=True))]
        if reading.swa:
            pairs += enumerate(zip(reading.swa, swa, strict=False), reading.swa_start)
        job.output = self._tokens(
            job, tuple((page, saw) for page, (saw, is_) in pairs if saw != is_)
        )

    def _tokens(self, job: Job, wrong: Wrong) -> bytes:
        prompt = blake2b(job.key.data, digest_size=16, key=job.key.namespace.encode()[:64])
        seed = stream_seed("answer", prompt.hexdigest(), repr(wrong))
        words = synthesize([Span(seed, 0, job.output_len)], self._vocab_size - FIRST_WORD)
        return token_bytes(words + FIRST_WORD)
