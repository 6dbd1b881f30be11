"""Families are built by name, from values or from text, and record every setting."""

import pytest

from workloads.errors import WorkloadError
from workloads.synthetic import FAMILIES, Chat, SharedPrefix, Unique, build, settings
from workloads.synthetic.amounts import Always, LogNormal, Uniform


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_documented_settings_and_can_be_built_without_any(name):
    workload = build(name, {})
    assert workload.name == name
    assert all(setting.help for setting in settings(name))
    assert set(workload.source) == {"family", *(setting.name for setting in settings(name))}
    assert next(workload.sessions()).turns[0].prompt_len > 0


def test_text_is_read_as_the_kind_of_the_default():
    built = build(
        "chat",
        {"num_clients": "3", "abort_share": "0.25", "question_len": "uniform:4,9", "seed": 7},
    )
    assert built == Chat(num_clients=3, abort_share=0.25, question_len=Uniform(4, 9), seed=7)
    assert build("unique", {"input_len": 5}) == Unique(input_len=Always(5))
    given = LogNormal(9, 1)
    assert build("unique", {"input_len": given}) == Unique(input_len=given)


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("chats", {}, "no workload is called 'chats'; choose one of: chat, shared_prefix, unique"),
        ("unique", {"rounds": 1}, "unique has no 'rounds'; it has: num_requests, input_len"),
        ("chat", {"num_rounds": "1.5"}, "num_rounds must be a whole number, not '1.5'"),
        ("chat", {"abort_share": "x"}, "abort_share must be a number, not 'x'"),
        ("chat", {"output_len": "x"}, "output_len: 'x' is no distribution"),
        ("chat", {"arrivals": "poisson"}, "arrivals cannot be given as text"),
        ("unique", {"num_requests": 0}, "num_requests must be a whole number of at least 1"),
        ("shared_prefix", {"num_groups": 0}, "num_groups must be"),
        ("shared_prefix", {"prompts_per_group": 0}, "prompts_per_group must be"),
    ],
)
def test_what_cannot_be_built_says_what_can(name, values, said):
    with pytest.raises(WorkloadError, match=said) as error:
        build(name, values)
    assert "\n" not in str(error.value)


def test_shared_prefixes_are_asked_equally_often_in_mixed_order():
    sessions = list(SharedPrefix(num_groups=5, prompts_per_group=8).sessions())
    tenants = [session.turns[0].tenant for session in sessions]
    assert {tenants.count(f"tenant-{group}") for group in range(5)} == {8}
    assert tenants != sorted(tenants)
    assert tenants[:5] != [f"tenant-{group}" for group in range(5)]
    assert len({session.session_id for session in sessions}) == 40
    assert len({session.turns[0].prompt for session in sessions}) == 40
    assert len({session.turns[0].prompt[0] for session in sessions}) == 5


def test_unique_requests_share_no_stream():
    turns = [session.turns[0] for session in Unique(num_requests=30).sessions()]
    seeds = [span.seed for turn in turns for span in turn.prompt + turn.output]
    assert len(set(seeds)) == 60
