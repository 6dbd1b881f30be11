"""The clients: what is sent when, and what ends the sending."""

from dataclasses import replace

import pytest

from harness.engine.clients import Clients, Load
from harness.engine.job import Job, JobState, JobStatus
from harness.engine.world import Grain
from harness.explore.kernel import Kernel
from harness.explore.pickers import Search, VirtualClock
from harness.explore.strategies import Uniform
from tests.harness.engine.build import VOCAB, Fixed, alone, build, config, judge, request, run
from workloads.request import Session

US = 1e-6


class Server:
    """Answers every request a fixed time after it was sent."""

    def __init__(self, takes_s: float) -> None:
        self.kernel, self.takes_s = Kernel(), takes_s
        self.clients: Clients
        self.sent: list[Job] = []
        self.open = self.most = 0
        self.aborted: list[tuple[str, float]] = []

    def submit(self, job: Job) -> None:
        self.sent.append(job)
        self.open += 1
        self.most = max(self.most, self.open)
        self.kernel.spawn(f"answer {job.number}", self._answer(job))

    def abort(self, job: Job) -> None:
        self.aborted.append((job.name, self.kernel.now))

    async def _answer(self, job: Job) -> None:
        await self.kernel.pause(self.takes_s, "answer")
        self.open -= 1
        job.state, job.end_s = JobState.DONE, self.kernel.now
        self.clients.job_ended(job)


def serve(sessions, load=None, *, takes_s=10.0, scattered=False, picker=None) -> Server:
    server = Server(takes_s)
    server.clients = Clients(
        server.kernel,
        server,
        sessions,
        load or Load(),
        page_size=4,
        vocab_size=VOCAB,
        scattered=scattered,
    )
    server.clients.start()
    ended = server.kernel.run(picker or VirtualClock(), step_limit=10_000)
    assert ended.reason == "finished", ended
    return server


def talk(name: str, *turns: tuple[float, float | None]) -> Session:
    """A session of (arrival, delay) turns."""
    made = [
        replace(request(f"{name}{k}", 8, 4), turn=k, arrival_s=at, delay_s=delay)
        for k, (at, delay) in enumerate(turns)
    ]
    return Session(name, tuple(made))


def times(server: Server) -> dict[str, float]:
    return {job.name: job.sent_s for job in server.sent}


def test_a_closed_loop_sends_a_turn_its_delay_after_the_answer_before():
    server = serve([talk("a", (0.0, None), (1.0, 1.0), (3.0, 2.0))])
    assert times(server) == {"a0": 0.0, "a1": 11.0, "a2": 23.0}
    assert [job.scheduled_s for job in server.sent] == [0.0, 11.0, 23.0]


def test_an_open_loop_sends_at_its_times_whatever_is_answered():
    server = serve([talk("a", (0.0, None), (1.0, None), (3.0, None))])
    assert times(server) == {"a0": 0.0, "a1": 1.0, "a2": 3.0}
    assert server.most == 3


def test_turns_may_mix():
    server = serve([talk("a", (0.0, None), (0.0, 5.0), (12.0, None)), talk("b", (2.0, None))])
    assert times(server) == {"a0": 0.0, "b0": 2.0, "a1": 15.0, "a2": 15.0}


@pytest.mark.parametrize("most", [1, 2, 3, 7])
@pytest.mark.parametrize("scattered", [False, True])
def test_no_more_requests_are_open_than_allowed_and_schedules_stand(most, scattered):
    sessions = [talk(f"s{i}-", (float(i), None), (float(i), 1.0)) for i in range(7)]
    server = serve(sessions, Load(max_concurrency=most), scattered=scattered)
    assert server.most == most
    assert len(server.sent) == 14
    assert all(job.sent_s >= job.scheduled_s for job in server.sent)
    first = [job.scheduled_s for job in server.sent if job.name.endswith("-0")]
    assert sorted(first) == [float(i) for i in range(7)]


def test_who_waits_for_concurrency_is_served_in_order():
    sessions = [talk(f"s{i}", (i / 10, None)) for i in range(5)]
    server = serve(sessions, Load(max_concurrency=1))
    assert [job.name for job in server.sent] == [f"s{i}0" for i in range(5)]
    assert [job.sent_s for job in server.sent] == pytest.approx([0.0, 10.0, 20.0, 30.0, 40.0])
    assert [job.scheduled_s for job in server.sent] == [0.0, 0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("most", [None, 1, 2])
def test_the_number_of_requests_is_kept(scattered, most):
    sessions = [talk(f"s{i}-", (float(i), None), (float(i), 1.0)) for i in range(7)]
    load = Load(num_requests=5, max_concurrency=most)
    assert len(serve(sessions, load, scattered=scattered).sent) == 5


def test_the_number_of_requests_is_kept_in_any_order():
    sessions = [talk(f"s{i}-", (float(i), None), (float(i), 1.0)) for i in range(4)]
    for seed in range(30):
        strategy = Uniform()
        strategy.begin(seed, None)  # type: ignore[arg-type]
        load = Load(num_requests=5, max_concurrency=2)
        server = serve(sessions, load, scattered=True, picker=Search(strategy))
        assert len(server.sent) == 5
        assert server.most <= 2


def test_nothing_is_sent_after_the_duration():
    sessions = [talk(f"s{i}-", (float(i), None), (float(i), 1.0)) for i in range(30)]
    server = serve(sessions, Load(duration_s=20.5))
    assert max(job.sent_s for job in server.sent) == 20.0
    assert len(server.sent) == 21 + 10  # first turns 0 .. 20, second turns 11 .. 20
    assert server.kernel.now == 30.0  # what was sent is answered


def test_nothing_is_sent_after_the_duration_by_those_who_waited():
    sessions = [talk(f"s{i}", (i / 10, None)) for i in range(9)]
    server = serve(sessions, Load(duration_s=25.0, max_concurrency=1))
    assert [job.sent_s for job in server.sent] == pytest.approx([0.0, 10.0, 20.0])


def test_sessions_are_read_when_they_begin_and_not_before():
    read = []

    def lazily():
        for i in range(50):
            read.append(i)
            yield talk(f"s{i}", (float(i), None))

    server = serve(lazily(), Load(duration_s=10.0))
    assert len(server.sent) == 11
    assert len(read) == 12


def test_a_client_leaves_its_time_after_sending():
    wanted = request("r", 8, 4, arrival_s=3.0, abort_after_s=2.5)
    assert serve(alone(wanted)).aborted == [("r", 5.5)]


def test_a_search_may_send_in_any_order():
    sessions = [talk(f"s{i}", (float(i), None)) for i in range(4)]
    orders = set()
    for seed in range(40):
        strategy = Uniform()
        strategy.begin(seed, None)  # type: ignore[arg-type]
        server = serve(sessions, scattered=True, picker=Search(strategy))
        orders.add(tuple(job.name for job in server.sent))
    assert len(orders) > 12


def test_a_rejected_or_aborted_turn_does_not_end_its_session():
    session = Session(
        "s",
        (
            request("long", 500, 1),
            replace(request("leaves", 8, 60, abort_after_s=3 * US), turn=1, delay_s=US),
            replace(request("last", 8, 4), turn=2, delay_s=US),
        ),
    )
    ran = judge(run(build(config(), [session], compute=Fixed())))
    statuses = [job.status for job in ran.jobs]
    assert statuses == [JobStatus.REJECTED, JobStatus.ABORTED, JobStatus.COMPLETED]
    assert ran["leaves"].sent_s == pytest.approx(US)
    assert ran["last"].sent_s == pytest.approx(ran["leaves"].end_s + US)


def test_a_namespace_is_not_shared():
    requests = [
        request("a", 40, 1, stream=1, namespace="x"),
        request("b", 40, 1, stream=1, namespace="y", arrival_s=1.0),
        request("c", 40, 1, stream=1, namespace="x", arrival_s=2.0),
    ]
    ran = judge(run(build(config(), alone(*requests), grain=Grain())))
    assert [ran[name].device_tokens for name in "abc"] == [0, 0, 36]
