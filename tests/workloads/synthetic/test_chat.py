"""Each turn of a chat repeats all that was said; what is drawn depends on the seed alone."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.arrivals import Constant
from workloads.errors import WorkloadError
from workloads.synthetic import Chat
from workloads.synthetic.amounts import Always, LogNormal, Uniform

lengths = st.one_of(
    st.builds(Always, st.integers(1, 50)),
    st.builds(lambda low, more: Uniform(low, low + more), st.integers(0, 50), st.integers(0, 50)),
    st.builds(LogNormal, st.integers(1, 50), st.floats(0, 2)),
)
chats = st.builds(
    Chat,
    num_groups=st.integers(1, 4),
    num_clients=st.integers(1, 5),
    num_rounds=st.integers(1, 4),
    system_prompt_len=lengths,
    question_len=lengths,
    output_len=lengths,
    think_time_s=st.builds(Uniform, st.just(0), st.integers(0, 9)),
    zipf_exponent=st.floats(0, 3),
    abort_share=st.floats(0, 1),
    priority_levels=st.integers(1, 3),
    namespace_share=st.floats(0, 1),
    seed=st.integers(0, 1 << 70),
)


@settings(max_examples=40)
@given(chats)
def test_a_prompt_is_the_system_prompt_and_all_that_was_said(chat):
    sessions = list(chat.sessions())
    assert len(sessions) == chat.num_clients
    for session in sessions:
        assert len(session.turns) == chat.num_rounds
        said = session.turns[0].prompt[:1]
        for number, turn in enumerate(session.turns):
            assert turn.turn == number
            assert turn.session_id == session.session_id
            assert turn.prompt[:-1] == said
            assert all(span.length >= 1 for span in turn.prompt + turn.output)
            said = turn.prompt + turn.output


@settings(max_examples=40)
@given(chats)
def test_prompts_share_the_system_prompts_and_nothing_else(chat):
    systems, parts = set(), []
    for session in chat.sessions():
        last = session.turns[-1]
        systems.add(last.prompt[0])
        parts += [span.seed for span in last.prompt[1:] + last.output]
        assert {turn.tenant for turn in session.turns} == {last.tenant}
    assert len(systems) <= chat.num_groups
    assert len(set(parts)) == len(parts)


@settings(max_examples=40)
@given(chats)
def test_later_turns_are_sent_after_thinking(chat):
    begins = [session.turns[0].arrival_s for session in chat.sessions()]
    assert begins == sorted(begins)
    for session in chat.sessions():
        first, *later = session.turns
        assert first.delay_s is None
        at_s = first.arrival_s
        for turn in later:
            assert 0 <= turn.delay_s <= chat.think_time_s.high
            at_s += turn.delay_s
            assert turn.arrival_s == at_s


@settings(max_examples=40)
@given(chats)
def test_sessions_keep_their_priority_and_their_namespace(chat):
    for session in chat.sessions():
        assert len({(turn.priority, turn.namespace) for turn in session.turns}) == 1
        assert 0 <= session.turns[0].priority < chat.priority_levels
        assert session.turns[0].namespace in ("", session.turns[0].tenant)


@settings(max_examples=20)
@given(chats)
def test_the_same_chat_can_be_read_again(chat):
    assert list(chat.sessions()) == list(chat.sessions())
    assert chat.digest() == chat.digest()


def test_more_clients_change_no_session_that_was_there():
    few, many = (Chat(num_clients=n, arrivals=Constant(1.0)) for n in (3, 9))
    assert list(few.sessions()) == list(many.sessions())[:3]


def test_another_seed_is_another_chat():
    assert Chat(seed=1).digest() != Chat(seed=2).digest()


def share(n, chosen):
    """Five deviations of the share of `n` draws with probability `chosen`."""
    return 5 * math.sqrt(chosen * (1 - chosen) / n)


def test_shares_are_kept():
    chat = Chat(
        num_clients=1000, num_rounds=4, abort_share=0.3, namespace_share=0.2, priority_levels=2
    )
    sessions = list(chat.sessions())
    aborted = [turn.abort_after_s for session in sessions for turn in session.turns]
    gone = [after_s for after_s in aborted if after_s is not None]
    named = sum(session.turns[0].namespace != "" for session in sessions)
    first = sum(session.turns[0].priority == 1 for session in sessions)
    assert abs(len(gone) / 4000 - 0.3) < share(4000, 0.3)
    assert all(0 <= after_s <= 2 for after_s in gone)
    assert abs(named / 1000 - 0.2) < share(1000, 0.2)
    assert abs(first / 1000 - 0.5) < share(1000, 0.5)


@pytest.mark.parametrize(("exponent", "most"), [(0.0, 1 / 4), (1.0, 12 / 25), (2.0, 144 / 205)])
def test_groups_are_as_popular_as_zipf_says(exponent, most):
    """With four groups the first has a weight of 1 / (1 + 2**-s + 3**-s + 4**-s)."""
    chat = Chat(num_groups=4, num_clients=2000, num_rounds=1, zipf_exponent=exponent)
    tenants = [session.turns[0].tenant for session in chat.sessions()]
    assert abs(tenants.count("tenant-0") / 2000 - most) < share(2000, most)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_groups": 0}, "num_groups must be a whole number of at least 1, not 0"),
        ({"num_clients": 1.5}, "num_clients must be a whole number of at least 1, not 1.5"),
        ({"num_rounds": -1}, "num_rounds"),
        ({"priority_levels": 0}, "priority_levels"),
        ({"abort_share": 1.1}, "abort_share must be a share from 0 to 1, not 1.1"),
        ({"namespace_share": math.nan}, "namespace_share must be a share"),
        ({"zipf_exponent": -1}, "zipf_exponent must be from 0 to 10, not -1"),
    ],
)
def test_a_setting_that_cannot_be_says_why(settings, said):
    with pytest.raises(WorkloadError, match=said):
        Chat(**settings)
