"""The infinite cache on runs counts what one on pages counts, for any cut of the same tokens."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workloads.footprint import Footprint, IdealCache, footprint
from workloads.request import Request, Session
from workloads.synthetic import Chat, SharedPrefix, Unique
from workloads.tokens import Span
from workloads.workload import digest_of, in_arrival_order

spans = st.builds(Span, st.integers(0, 2), st.integers(0, 6), st.integers(0, 9))
texts = st.lists(spans, max_size=4).map(tuple)


@dataclass(frozen=True)
class Given:
    """A workload of the sessions it is given."""

    listed: tuple[Session, ...]
    name: str = "given"

    @property
    def source(self) -> dict[str, str | int | float]:
        return {}

    def sessions(self) -> Iterator[Session]:
        return iter(self.listed)

    def digest(self) -> str:
        return digest_of(self.listed)


@st.composite
def workloads(draw) -> Given:
    sessions = []
    at_s = 0.0
    for number in range(draw(st.integers(1, 6))):
        at_s += draw(st.integers(0, 3))
        turns, turn_s = [], at_s
        for turn in range(draw(st.integers(1, 3))):
            turn_s += draw(st.integers(0, 4)) if turn else 0
            turns.append(
                Request(
                    f"{number}-{turn}",
                    str(number),
                    turn,
                    draw(texts),
                    draw(texts),
                    turn_s,
                    namespace=draw(st.sampled_from(["", "", "other"])),
                )
            )
        sessions.append(Session(str(number), tuple(turns)))
    return Given(tuple(sessions))


def exploded(text: tuple[Span, ...]) -> tuple[tuple[int, int], ...]:
    """Each token as its place in its stream: equal places are equal tokens, without chance."""
    return tuple((span.seed, span.start + i) for span in text for i in range(span.length))


def by_brute_force(workload: Given, page_size: int) -> Footprint:
    """A set of all whole-page prefixes, in the order of arrival."""
    arrivals = [turn for session in workload.listed for turn in session.turns]
    arrivals.sort(key=lambda turn: (turn.arrival_s, int(turn.session_id), turn.turn))
    cached: set[tuple[str, tuple[tuple[int, int], ...]]] = set()
    hits = prompts = outputs = 0
    for request in arrivals:
        prompt, output = exploded(request.prompt), exploded(request.output)
        whole, ends = prompt + output, range(page_size, len(prompt), page_size)
        hits += page_size * sum((request.namespace, prompt[:end]) in cached for end in ends)
        for end in range(page_size, len(whole) + 1, page_size):
            cached.add((request.namespace, whole[:end]))
        prompts += len(prompt)
        outputs += len(output)
    unique = page_size * len(cached)
    return Footprint(len(arrivals), page_size, prompts, outputs, unique, hits)


REPEATED = (Span(0, 0, 4), Span(0, 4, 4)), (Span(0, 0, 8),)


@given(workloads(), st.integers(1, 5))
@example(
    Given(
        tuple(
            Session(str(i), (Request(str(i), str(i), 0, prompt, (), float(i)),))
            for i, prompt in enumerate(REPEATED)
        )
    ),
    4,
)
def test_runs_are_counted_as_pages_are(workload, page_size):
    assert footprint(workload, page_size) == by_brute_force(workload, page_size)


@given(workloads())
def test_requests_come_by_time_and_the_turns_of_a_session_in_order(workload):
    requests = list(in_arrival_order(workload))
    assert [request.arrival_s for request in requests] == sorted(r.arrival_s for r in requests)
    for session in workload.listed:
        ours = [r for r in requests if r.session_id == session.session_id]
        assert tuple(ours) == session.turns


def test_a_prompt_that_is_cached_whole_still_computes_its_last_token():
    ideal = IdealCache(page_size=4)
    request = Request("a", "a", 0, (Span(1, 0, 8),), (Span(2, 0, 1),), 0.0)
    assert [ideal.add(request), ideal.add(request)] == [0, 4]


def test_the_answer_of_an_earlier_turn_is_reused():
    ideal = IdealCache(page_size=4)
    asked, answered, more = Span(1, 0, 6), Span(2, 0, 6), Span(3, 0, 2)
    ideal.add(Request("a", "a", 0, (asked,), (answered,), 0.0))
    assert ideal.add(Request("b", "a", 1, (asked, answered, more), (), 1.0)) == 12


def test_namespaces_share_nothing():
    ideal = IdealCache(page_size=1)
    for namespace in ("", "x"):
        assert ideal.add(Request("a", "a", 0, (Span(1, 0, 8),), (), 0.0, namespace=namespace)) == 0


def test_shared_prefixes_hit_as_worked_out_by_hand():
    workload = SharedPrefix(num_groups=3, prompts_per_group=5)
    counted = footprint(workload, 64)
    assert counted.ideal_hit_tokens == 3 * 4 * 2048
    assert counted.ideal_token_hit_rate == 3 * 4 * 2048 / (15 * (2048 + 128))
    assert counted.unique_page_tokens == 3 * (2048 + 5 * (128 + 256))


def test_unique_prompts_never_hit():
    counted = footprint(Unique(num_requests=9), 64)
    assert counted.ideal_hit_tokens == 0
    assert counted.unique_page_tokens == 9 * (2048 + 128)


def test_requests_that_are_not_served_are_not_counted():
    chat = Chat(num_clients=3, num_rounds=4)
    firsts = footprint(chat, 64, served=lambda request: request.turn == 0)
    assert firsts.requests == 3


def test_no_requests_have_a_hit_rate_of_zero():
    assert IdealCache(64).footprint().ideal_token_hit_rate == 0


def test_a_page_of_no_tokens_is_refused():
    with pytest.raises(AssertionError, match="page_size"):
        IdealCache(0)
