"""Multi-turn chat over shared system prompts: the traffic that prefix caches are built for.

Each client picks one of a few system prompts, the popular ones more often, and talks for some
rounds. The prompt of a turn is the whole conversation so far, answers included, and the next
question; the following turn is sent a while after the answer came (closed loop).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from workloads.arrivals import Arrivals, Poisson
from workloads.request import Request, Session
from workloads.synthetic.amounts import Always, Amount, LogNormal, Uniform, pauses_s, tokens
from workloads.synthetic.chances import (
    check_count,
    check_exponent,
    check_share,
    generator,
    pick,
    zipf_cdf,
)
from workloads.synthetic.settings import described
from workloads.synthetic.system_prompts import system_prompt
from workloads.tokens import Span, stream_seed
from workloads.workload import digest_of


@dataclass(frozen=True, kw_only=True)
class Chat:
    """A chat workload; session i depends on the seed and i, never on the number of clients."""

    num_groups: int = field(default=8, metadata={"help": "different system prompts"})
    num_clients: int = field(default=64, metadata={"help": "sessions"})
    num_rounds: int = field(default=8, metadata={"help": "turns of a session"})
    system_prompt_len: Amount = field(
        default=Always(2048), metadata={"help": "tokens of a system prompt"}
    )
    question_len: Amount = field(
        default=LogNormal(128, 0.8, 8192), metadata={"help": "new tokens of a turn"}
    )
    output_len: Amount = field(
        default=LogNormal(192, 0.6, 4096), metadata={"help": "tokens of an answer"}
    )
    think_time_s: Amount = field(
        default=Uniform(1, 10), metadata={"help": "from an answer to the next turn"}
    )
    zipf_exponent: float = field(
        default=1.0, metadata={"help": "how uneven the groups' popularity is; 0 is even"}
    )
    abort_share: float = field(
        default=0.0, metadata={"help": "share of turns whose client goes away early"}
    )
    abort_after_s: Amount = field(
        default=Uniform(0, 2), metadata={"help": "from sending a turn to going away"}
    )
    priority_levels: int = field(
        default=1, metadata={"help": "sessions get a priority from 0 to this less 1"}
    )
    namespace_share: float = field(
        default=0.0, metadata={"help": "share of sessions with a namespace of their tenant"}
    )
    arrivals: Arrivals = field(default=Poisson(2.0), metadata={"help": "when sessions begin"})
    seed: int = field(default=42, metadata={"help": "of everything drawn"})

    def __post_init__(self) -> None:
        for name in ("num_groups", "num_clients", "num_rounds", "priority_levels"):
            check_count(name, getattr(self, name))
        check_share("abort_share", self.abort_share)
        check_share("namespace_share", self.namespace_share)
        check_exponent(self.zipf_exponent)

    @property
    def name(self) -> str:
        return "chat"

    @property
    def source(self) -> Mapping[str, str | int | float]:
        return described(self)

    def sessions(self) -> Iterator[Session]:
        begins = self.arrivals.times(self.num_clients, generator(self.seed, "arrivals"))
        popularity = zipf_cdf(self.num_groups, self.zipf_exponent)
        systems = [
            system_prompt(self.seed, group, self.system_prompt_len)
            for group in range(self.num_groups)
        ]
        for number, begin_s in enumerate(begins.tolist()):
            group = pick(popularity, generator(self.seed, "group", number))
            turns = self._turns(number, begin_s, group, systems[group])
            yield Session(f"chat-{number}", tuple(turns))

    def digest(self) -> str:
        return digest_of(self.sessions())

    def _turns(self, number: int, begin_s: float, group: int, system: Span) -> Iterator[Request]:
        """The turns of one session; each prompt repeats all that was said before."""
        rounds, seed = self.num_rounds, self.seed
        questions = tokens(self.question_len, generator(seed, "question", number), rounds)
        answers = tokens(self.output_len, generator(seed, "answer", number), rounds)
        pauses = pauses_s(self.think_time_s, generator(seed, "think", number), rounds)
        aborts = self._aborts_s(number)
        traits = generator(seed, "traits", number)
        priority = int(traits.random() * self.priority_levels)
        named = bool(traits.random() < self.namespace_share)
        said, at_s = [system], begin_s
        for turn in range(rounds):
            at_s += pauses[turn] if turn else 0.0
            said.append(Span(stream_seed(seed, "question", number, turn), 0, questions[turn]))
            answer = Span(stream_seed(seed, "answer", number, turn), 0, answers[turn])
            yield Request(
                request_id=f"chat-{number}-{turn}",
                session_id=f"chat-{number}",
                turn=turn,
                prompt=tuple(said),
                output=(answer,),
                arrival_s=at_s,
                delay_s=pauses[turn] if turn else None,
                priority=priority,
                namespace=f"tenant-{group}" if named else "",
                tenant=f"tenant-{group}",
                abort_after_s=aborts[turn],
            )
            said.append(answer)

    def _aborts_s(self, number: int) -> list[float | None]:
        rng = generator(self.seed, "abort", number)
        goes = (rng.random(self.num_rounds) < self.abort_share).tolist()
        after_s = pauses_s(self.abort_after_s, rng, self.num_rounds)
        return [after if gone else None for gone, after in zip(goes, after_s, strict=True)]
