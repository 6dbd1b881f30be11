"""Which requests a load sends, and which of them one worker sends.

Invariant: what is sent is decided by the workload alone, before the first request: the shares of
any number of workers have every chosen request exactly once, and no session is in two of them.
"""

from collections.abc import Iterator
from itertools import islice

from workloads.request import Session, Workload
from workloads.workload import in_arrival_order


def chosen(workload: Workload, num_requests: int | None) -> Iterator[Session]:
    """The first `num_requests` requests in order of arrival, in their sessions; all without."""
    if num_requests is None:
        yield from workload.sessions()
        return
    turns: dict[str, int] = {}
    for request in islice(in_arrival_order(workload), num_requests):
        turns[request.session_id] = request.turn + 1
    for session in workload.sessions():
        if not turns:
            return
        kept = turns.pop(session.session_id, 0)
        if kept:
            yield Session(session.session_id, session.turns[:kept])


def share(sessions: Iterator[Session], worker: int, workers: int) -> Iterator[Session]:
    """Every `workers`-th session, beginning with number `worker`; their times stay."""
    assert 0 <= worker < workers
    return islice(sessions, worker, None, workers)
