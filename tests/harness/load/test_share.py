"""Shares of a load: every chosen request in exactly one, sessions whole, in their order."""

import pytest

from harness.load.share import chosen, share
from harness.soak.plan import plan_traffic
from harness.soak.settings import Traffic
from workloads.workload import in_arrival_order

WORKLOAD = plan_traffic(Traffic(workload="chat", set=(("num_clients", "9"),), request_rate=2.0))


def _ids(sessions):
    return [turn.request_id for session in sessions for turn in session.turns]


@pytest.mark.parametrize("requests", [None, 1, 17, 10_000])
@pytest.mark.parametrize("workers", [1, 2, 5, 30])
def test_shares_are_a_partition_of_what_one_process_would_send(requests, workers):
    whole = list(chosen(WORKLOAD.workload, requests))
    shares = [list(share(iter(whole), worker, workers)) for worker in range(workers)]
    assert sorted(_ids([s for part in shares for s in part])) == sorted(_ids(whole))
    sessions = [s.session_id for part in shares for s in part]
    assert len(sessions) == len(set(sessions))
    for part in shares:
        begins = [s.turns[0].arrival_s for s in part]
        assert begins == sorted(begins)


def test_a_limit_takes_the_first_requests_by_arrival_whatever_the_sessions():
    first = [r.request_id for r in in_arrival_order(WORKLOAD.workload)][:17]
    taken = list(chosen(WORKLOAD.workload, 17))
    assert sorted(_ids(taken)) == sorted(first)
    assert all([t.turn for t in s.turns] == [*range(len(s.turns))] for s in taken)
