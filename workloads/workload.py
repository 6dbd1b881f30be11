"""What can be done with any workload: put its requests in order, name its content, hold a list.

Nothing here depends on where the requests come from.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain

import numpy as np

from workloads.request import Request, Session, Workload


def in_arrival_order(workload: Workload) -> Iterator[Request]:
    """Every request by the earliest moment it can be sent; turns of a session stay in order.

    Sessions are read one by one, so only those that have begun and not ended are held.
    """
    waiting: list[tuple[float, int, int, Session]] = []
    for number, session in enumerate(workload.sessions()):
        begins = session.turns[0].arrival_s
        while waiting and waiting[0][0] < begins:
            yield _next_turn(waiting)
        heapq.heappush(waiting, (begins, number, 0, session))
    while waiting:
        yield _next_turn(waiting)


def digest_of(sessions: Iterable[Session]) -> str:
    """The sha256 of every field of every request, in hexadecimal; the spans stand for tokens."""
    digest = sha256()
    for session in sessions:
        for request in session.turns:
            spans = np.fromiter(chain(*request.prompt, *request.output), "<u8")
            head = (
                request.request_id,
                request.session_id,
                request.turn,
                len(request.prompt),
                len(request.output),
                float(request.arrival_s),
                None if request.delay_s is None else float(request.delay_s),
                request.priority,
                request.namespace,
                request.tenant,
                None if request.abort_after_s is None else float(request.abort_after_s),
            )
            digest.update(repr(head).encode())
            digest.update(spans.tobytes())
    return digest.hexdigest()


def _next_turn(waiting: list[tuple[float, int, int, Session]]) -> Request:
    at, number, turn, session = heapq.heappop(waiting)
    if turn + 1 < len(session.turns):
        follows = max(at, session.turns[turn + 1].arrival_s)
        heapq.heappush(waiting, (follows, number, turn + 1, session))
    return session.turns[turn]
