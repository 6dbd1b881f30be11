"""News reach the loop, and never pile up in it."""

import asyncio

from harness.serve.postbox import Postbox
from harness.serve.received import Received, Ticket


def _ticket(post) -> Ticket:
    received = Received(
        request_id="r", session_id="s", turn=0, prompt=(), output=(), arrival_s=0.0,
        data=b"", arrived=0.0,
    )  # fmt: skip
    return Ticket(received, post)


class CountingLoop:
    """Keeps what it is to call."""

    def __init__(self):
        self.calls = []

    def call_soon_threadsafe(self, call):
        self.calls.append(call)


def test_any_amount_of_news_is_one_delivery_under_way():
    loop = CountingLoop()
    postbox = Postbox(loop)
    tickets = [_ticket(postbox.post) for _ in range(3)]
    events = [postbox.open(ticket) for ticket in tickets]
    for _ in range(1000):
        postbox.post(tickets[0])
        postbox.post(tickets[2])
    assert len(loop.calls) == 1
    loop.calls.pop()()
    assert [event.is_set() for event in events] == [True, False, True]
    postbox.post(tickets[1])
    assert len(loop.calls) == 1


def test_news_of_a_closed_ticket_and_of_a_closed_loop_are_dropped():
    loop = asyncio.new_event_loop()
    postbox = Postbox(loop)
    ticket = _ticket(postbox.post)
    event = postbox.open(ticket)
    postbox.close(ticket)
    assert postbox.listeners == 0
    postbox.post(ticket)
    loop.run_until_complete(asyncio.wait_for(_turn(), 5))
    assert not event.is_set()
    loop.close()
    postbox.post(ticket)


async def _turn():
    loop = asyncio.get_running_loop()
    turned = loop.create_future()
    loop.call_soon(turned.set_result, None)
    await turned
