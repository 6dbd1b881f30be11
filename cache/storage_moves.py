"""What is under way between host and storage: persists (down) and prefetches (up).

Both have two phases, as copies have: issued, run when storage replies, acknowledged by the
scheduler. Invariant: from issue to acknowledgement a persist's source slots are neither freed nor
rewritten; a prefetch's target slots are nobody else's until they are grafted or given back, which a
batch that has been asked for never is before its reply.
"""

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from cache.config import MAMBA, Component, Tier
from cache.keys import TOKEN_BYTES, Key
from cache.storage.contract import Status
from cache.strands import Strand
from cache.transfers import Copy, CopyState

if TYPE_CHECKING:
    from cache.locks import Lock
    from cache.tree import Node


class Outcome(Enum):
    """What became of a prefetch."""

    PENDING = "under way"
    TOO_SHORT = "below the prefetch threshold"
    NO_ANCHOR = "no node that it could go to has a host copy"
    NOTHING = "storage has no more of it"
    NO_ROOM = "no host slots"
    COMPLETE = "all of it came"
    PARTIAL = "some of it came, or none"
    CANCELLED = "the request left"


class PrefetchState(Enum):
    ASKED = "asked what is there"  # a reply is outstanding
    ANSWERED = "knows what is there"
    FETCHING = "a batch is on its way"  # a reply is outstanding
    ENDED = "the last batch has come"
    OVER = "over"


# What several ranks were answered comes to the first of these that any of them was.
SEVERITY = (Status.ABSENT, Status.TORN, Status.FULL, Status.FAILED, Status.SLOW, Status.OK)


class Source(NamedTuple):
    """The objects of one node and strand, as they lie on the host under the slots of the owner."""

    node: "Node"
    strand: Strand
    slots: list[int]

    @property
    def component(self) -> Component:
        return self.strand.component


class Persist:
    """Pages of one node (of both halves, once it was split) on their way to storage.

    `stored` tells how many pages, in the order of `sources`, are in storage; `status` why no
    more."""

    kind = "persist"

    def __init__(self, number: int, sources: list[Source], lock: "Lock") -> None:
        self.number = number
        self.sources = sources
        self.lock = lock
        self.state = CopyState.QUEUED
        self.stored = 0
        self.status = Status.OK

    @property
    def outstanding(self) -> bool:
        return self.state is CopyState.QUEUED

    @property
    def in_flight(self) -> bool:
        return self.state not in (CopyState.DONE, CopyState.FAILED)

    @property
    def pages(self) -> int:
        return sum(len(source.slots) for source in self.sources)

    def said(self) -> tuple[int, ...]:
        """Storage's reply, as an offer to the other ranks."""
        return SEVERITY.index(self.status), self.stored

    def heed(self, agreed: tuple[int, ...]) -> None:
        self.status, self.stored = SEVERITY[agreed[0]], agreed[1]

    def follow_split(self, upper: "Node", lower: "Node", pages: int) -> None:
        """A node of this persist was cut: so is each of its sources, in place, unless that is the
        state of its end."""
        sources: list[Source] = []
        for source in self.sources:
            if source.node is not lower or source.component is MAMBA:
                sources.append(source)
                continue
            _, strand, slots = source
            sources.append(Source(upper, strand, slots[:pages]))
            sources.append(Source(lower, strand, slots[pages:]))
        self.sources = sources

    def __repr__(self) -> str:
        return f"{self.kind} {self.number} ({self.state.value})"


class Wanted(NamedTuple):
    """One object of a page of the key to fetch."""

    strand: Strand
    page: int

    @property
    def component(self) -> Component:
        return self.strand.component


class Reached(NamedTuple):
    """How far a prefetch has come: `arrived` of what is wanted has landed, storage may be writing
    into the rest up to `upto`, and `answered` tells that no reply is to come. Of several ranks the
    least has landed and the most is being written into."""

    answered: bool
    arrived: int
    upto: int

    def offer(self) -> tuple[int, ...]:
        """Such that the least of each holds for all."""
        return int(self.answered), self.arrived, -self.upto

    @classmethod
    def of(cls, agreed: tuple[int, ...]) -> "Reached":
        answered, arrived, upto = agreed
        return cls(bool(answered), arrived, -upto)

    @property
    def kept(self) -> range:
        """What of the wanted must be kept until the last reply."""
        return range(0) if self.answered else range(self.arrived, self.upto)


class Prefetch(Copy):
    """Pages of `key` on their way from storage to the host: to nodes down to `anchor`, and below.

    `start` is how far the tree alone serves the request, `limit` how far it could use more, `end`
    how far this goes (all tokens). It comes in the order of `wanted`: `arrived` of that has landed,
    `asked` more is on its way, and the first `granted`, which have landed on every rank, nodes may
    take. For whoever counts slots it is a copy to the host."""

    def __init__(
        self,
        number: int,
        key: Key,
        anchor: "Node",
        start: int,
        limit: int,
        lock: "Lock",
        holder: str,
    ) -> None:
        super().__init__(number, Tier.HOST, [], lock)
        self.key = key
        self.anchor = anchor
        self.holder = holder
        self.start = start
        self.limit = limit
        self.end = start
        self.phase = PrefetchState.ASKED
        self.outcome = Outcome.PENDING
        self.status = Status.OK
        self.questions: list[Wanted] = []
        self.there: tuple[bool, ...] = ()  # what storage says of each of the questions
        self.held: dict[Component, dict[int, int]] = {}  # page to host slot, while it is ours
        self.first: dict[Component, int] = {}  # page from which the prefix needs each component
        self.wanted: list[Wanted] = []
        self.arrived = 0
        self.asked = 0
        self.granted = 0
        self.kept = range(0)  # once stopped: of the wanted, what storage may be writing into
        self.stopped = False
        self.grafted_end = start  # tokens of the key that it has filled up to, or added
        self.revived: list[tuple[Node, Component]] = []  # what nodes that were there have taken

    @property
    def kind(self) -> str:
        return "prefetch"

    @property
    def outstanding(self) -> bool:
        """Whether a reply of storage is to come."""
        return self.phase in (PrefetchState.ASKED, PrefetchState.FETCHING)

    @property
    def over(self) -> bool:
        return self.phase is PrefetchState.OVER

    @property
    def in_flight(self) -> bool:
        return not self.over

    @property
    def reached(self) -> Reached:
        """On this rank, as it stands."""
        return Reached(not self.outstanding, self.arrived, self.arrived + self.asked)

    def said(self) -> tuple[int, ...]:
        """What storage says is there, as an offer to the other ranks."""
        return SEVERITY.index(self.status), *map(int, self.there)

    def heed(self, agreed: tuple[int, ...]) -> None:
        self.status, self.there = SEVERITY[agreed[0]], tuple(map(bool, agreed[1:]))

    def landed(self, component: Component) -> int:
        """The page up to which what is wanted of a component has landed with all its companions, of
        what is granted."""
        coming = self.wanted[self.granted :]
        last = self.wanted[-1].page + 1 if self.wanted else 0
        return next((wanted.page for wanted in coming if wanted.component is component), last)

    def brought(self, tokens: int) -> int:
        """Of the first `tokens` of the key those of pages of which something came."""
        if not self.granted:
            return 0
        size, end = self.key.page_bytes // TOKEN_BYTES, self.anchor.end
        upto = min(tokens, self.grafted_end)
        came = {w.page for w in self.wanted[: self.granted] if w.page * size < min(end, upto)}
        return len(came) * size + max(0, upto - end)

    def take(self, component: Component, first: int, stop: int) -> list[int]:
        """Its slots for pages [first, stop), if all of them are still its own and have landed: from
        now on they are the caller's to account for. Else none."""
        held = self.held.get(component, {})
        if stop > self.landed(component) or any(p not in held for p in range(first, stop)):
            return []
        return [held.pop(page) for page in range(first, stop)]

    def give_up(self, first: int, stop: int) -> dict[Component, list[int]]:
        """Its slots for `wanted[first:stop]`, as far as they are still its own and nothing is on
        its way into them, or to their companions."""
        slots: dict[Component, list[int]] = {}
        kept = self.wanted[self.kept.start : self.kept.stop]
        busy = {(wanted.component, wanted.page) for wanted in kept}
        for wanted in self.wanted[first:stop]:
            component, page = wanted.component, wanted.page
            if (component, page) not in busy and page in self.held[component]:
                slots.setdefault(component, []).append(self.held[component].pop(page))
        return slots

    def __repr__(self) -> str:
        return f"prefetch {self.number} of {self.holder} ({self.phase.value})"


Move = Persist | Prefetch
