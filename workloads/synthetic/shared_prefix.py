"""One question each over shared system prompts, in shuffled order.

Every group has the same number of questions, so the ideal hit rate can be worked out by hand: all
of a system prompt's whole pages, for all but the first question of its group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from workloads.arrivals import Arrivals, Poisson
from workloads.request import Request, Session
from workloads.synthetic.amounts import Always, Amount, tokens
from workloads.synthetic.chances import check_count, generator
from workloads.synthetic.settings import described
from workloads.synthetic.system_prompts import system_prompt
from workloads.tokens import Span, stream_seed
from workloads.workload import digest_of


@dataclass(frozen=True, kw_only=True)
class SharedPrefix:
    """`num_groups` times `prompts_per_group` sessions of one turn."""

    num_groups: int = field(default=64, metadata={"help": "different system prompts"})
    prompts_per_group: int = field(default=16, metadata={"help": "questions over each of them"})
    system_prompt_len: Amount = field(
        default=Always(2048), metadata={"help": "tokens of a system prompt"}
    )
    question_len: Amount = field(default=Always(128), metadata={"help": "tokens of a question"})
    output_len: Amount = field(default=Always(256), metadata={"help": "tokens of an answer"})
    arrivals: Arrivals = field(
        default=Poisson(4.0), metadata={"help": "when the questions are asked"}
    )
    seed: int = field(default=42, metadata={"help": "of everything drawn"})

    def __post_init__(self) -> None:
        check_count("num_groups", self.num_groups)
        check_count("prompts_per_group", self.prompts_per_group)

    @property
    def name(self) -> str:
        return "shared_prefix"

    @property
    def source(self) -> Mapping[str, str | int | float]:
        return described(self)

    def sessions(self) -> Iterator[Session]:
        count = self.num_groups * self.prompts_per_group
        begins = self.arrivals.times(count, generator(self.seed, "arrivals")).tolist()
        order = generator(self.seed, "order").permutation(count).tolist()
        systems = [
            system_prompt(self.seed, group, self.system_prompt_len)
            for group in range(self.num_groups)
        ]
        for begin_s, number in zip(begins, order, strict=True):
            group = number % self.num_groups
            yield self._session(group, number // self.num_groups, begin_s, systems[group])

    def digest(self) -> str:
        return digest_of(self.sessions())

    def _session(self, group: int, number: int, begin_s: float, system: Span) -> Session:
        session_id = f"shared-{group}-{number}"
        seed, name = self.seed, (group, number)
        (asked,) = tokens(self.question_len, generator(seed, "question", *name), 1)
        (answered,) = tokens(self.output_len, generator(seed, "answer", *name), 1)
        request = Request(
            request_id=session_id,
            session_id=session_id,
            turn=0,
            prompt=(system, Span(stream_seed(seed, "question", *name), 0, asked)),
            output=(Span(stream_seed(seed, "answer", *name), 0, answered),),
            arrival_s=begin_s,
            tenant=f"tenant-{group}",
        )
        return Session(session_id, (request,))
