"""What the clients of a world send."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.explore.outcome import Scenario
from harness.targets.sglang.tokens import ANSWER, Seed, grow


@dataclass(frozen=True, slots=True)
class Prompt:
    """`shared` tokens of the group's prefix, `own` of a tail that others may have too; behind the
    prompt and answer of `after`, where it is a later turn of that conversation."""

    id: int
    group: int
    shared: int
    tail: int
    own: int
    answer: int
    after: str | None  # whose conversation it goes on with
    waits_for: str | None  # whose answer its client waits for before it sends
    abort: bool
    served: bool  # before the story begins

    @property
    def rid(self) -> str:
        return f"r{self.id}"

    def tokens(self, others: Sequence["Prompt"]) -> list[int]:
        before = next((other for other in others if other.rid == self.after), None)
        if before is not None:
            so_far = grow(before.tokens(others), ANSWER, before.answer)
            return grow(so_far, Seed(2, 50 + self.tail), self.own)
        prefix = grow([], Seed(1, self.group), self.shared)
        return grow(prefix, Seed(2, self.tail), self.own)


def page_of(scenario: Scenario) -> int:
    """Tokens of a page; the releases take recurrent states with a page of 1 only."""
    return 1 if "mamba" in scenario["components"] else int(scenario["page_size"])


def shared_of(scenario: Scenario, row: dict[str, Any]) -> int:
    """Tokens of a request's group prefix: its pages, and those that all are stretched by."""
    page = page_of(scenario)
    stretch = -(-int(scenario.get("stretch", 0)) // page)
    return (int(row["shared"]) + stretch) * page if row["shared"] else 0


def prompts_of(scenario: Scenario) -> list[Prompt]:
    """In the order of their numbers; lengths are made to fit one request into the pools."""
    page = page_of(scenario)
    rows: list[dict[str, Any]] = scenario["requests"]
    known = [row["id"] for row in rows]
    served = int(scenario.get("served", 0))
    prompts = []
    for at, row in enumerate(rows):
        before = f"r{row['id'] - 1}" if row["id"] - 1 in known else None
        prompts.append(
            Prompt(
                id=row["id"],
                group=row["group"],
                shared=shared_of(scenario, row),
                tail=row["tail"],
                own=1 + row["own"] + row["pages"] * page,
                answer=row["answer"],
                after=before if row["turn"] else None,
                waits_for=before if row["turn"] or row["waits"] else None,
                abort=row["abort"],
                served=at < served,
            )
        )
    return prompts
