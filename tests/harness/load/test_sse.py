"""Events are the same however the network cuts them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.load import sse
from harness.load.sse import Events, EventTooLong

STREAM = b'data: {"a":1}\n\n: a comment\n\ndata:{"b":2}\r\n\r\nevent: x\ndata: c\ndata: d\n\n'


@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_any_cut_gives_the_same_events(cuts):
    at = [0, *sorted(cuts), len(STREAM)]
    parts = [STREAM[a:b] for a, b in pairwise(at)]
    events = Events()
    found = [data for part in parts for data in events.feed(part)]
    assert found == [b'{"a":1}', b'{"b":2}', b"c\nd"]


def test_an_event_is_told_as_soon_as_it_is_whole():
    events = Events()
    assert events.feed(b"data: a\n") == []
    assert events.feed(b"\n") == [b"a"]


def test_an_endless_event_is_an_error(monkeypatch):
    monkeypatch.setattr(sse, "MOST_BYTES", 10)
    with pytest.raises(EventTooLong):
        Events().feed(b"data: 0123456789")
