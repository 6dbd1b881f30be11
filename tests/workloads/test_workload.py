"""A digest names every field of every request, and nothing but what the requests are."""

from dataclasses import fields, replace

import pytest

from workloads.request import Request, Session
from workloads.tokens import Span
from workloads.workload import digest_of

REQUEST = Request("r", "s", 0, (Span(1, 0, 5), Span(2, 0, 5)), (Span(3, 0, 5),), 1.0)

CHANGES = {
    "request_id": "other",
    "session_id": "other",
    "turn": 1,
    "prompt": (Span(1, 0, 5), Span(2, 0, 6)),
    "output": (Span(3, 1, 5),),
    "arrival_s": 1.5,
    "delay_s": 0.0,
    "priority": 1,
    "namespace": "other",
    "tenant": "other",
    "abort_after_s": 1.0,
}


def digest(request):
    return digest_of([Session(request.session_id, (request,))])


def test_every_field_is_changed_once():
    assert set(CHANGES) == {field.name for field in fields(Request)}


@pytest.mark.parametrize("name", CHANGES)
def test_every_field_changes_the_digest(name):
    assert digest(replace(REQUEST, **{name: CHANGES[name]})) != digest(REQUEST)


def test_a_span_that_moves_from_prompt_to_output_changes_the_digest():
    first, second = REQUEST.prompt
    moved = replace(REQUEST, prompt=(first,), output=(second, *REQUEST.output))
    assert digest(moved) != digest(REQUEST)


def test_a_number_is_the_same_whether_it_was_whole():
    assert digest(replace(REQUEST, arrival_s=1)) == digest(REQUEST)
