"""Requests that share nothing: what a cache costs when it cannot help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from workloads.arrivals import Arrivals, Poisson
from workloads.request import Request, Session
from workloads.synthetic.amounts import Always, Amount, tokens
from workloads.synthetic.chances import check_count, generator
from workloads.synthetic.settings import described
from workloads.tokens import Span, stream_seed
from workloads.workload import digest_of


@dataclass(frozen=True, kw_only=True)
class Unique:
    """`num_requests` sessions of one turn; no two prompts have a token stream in common."""

    num_requests: int = field(default=256, metadata={"help": "sessions of one turn"})
    input_len: Amount = field(default=Always(2048), metadata={"help": "tokens of a prompt"})
    output_len: Amount = field(default=Always(128), metadata={"help": "tokens of an answer"})
    arrivals: Arrivals = field(default=Poisson(4.0), metadata={"help": "when requests are sent"})
    seed: int = field(default=42, metadata={"help": "of everything drawn"})

    def __post_init__(self) -> None:
        check_count("num_requests", self.num_requests)

    @property
    def name(self) -> str:
        return "unique"

    @property
    def source(self) -> Mapping[str, str | int | float]:
        return described(self)

    def sessions(self) -> Iterator[Session]:
        seed, count = self.seed, self.num_requests
        begins = self.arrivals.times(count, generator(seed, "arrivals")).tolist()
        asked = tokens(self.input_len, generator(seed, "input"), count)
        answered = tokens(self.output_len, generator(seed, "output"), count)
        for number, begin_s in enumerate(begins):
            name = f"unique-{number}"
            prompt = (Span(stream_seed(seed, "input", number), 0, asked[number]),)
            output = (Span(stream_seed(seed, "output", number), 0, answered[number]),)
            yield Session(name, (Request(name, name, 0, prompt, output, begin_s),))

    def digest(self) -> str:
        return digest_of(self.sessions())
