"""Where jobs stand: one place each, the one that their state names."""

from cache.keys import Key
from cache.table import PageTable
from harness.engine.job import Job, JobState
from harness.engine.roster import Roster
from tests.harness.engine.build import request

PAGE = 4


def a_job(number: int, *, priority: int = 0, prompt: int = 10, output: int = 9) -> Job:
    wanted = request(f"r{number}", prompt, output, priority=priority)
    key = Key(bytes(4 * prompt), PAGE)
    return Job(wanted, wanted.request_id, number, 0.0, 0.0, key, b"", output)


def opened(job: Job, *, pages: int = 0, written: int = 0) -> Job:
    job.table = PageTable(job.number, job.name, PAGE)
    job.table.full, job.table.written = list(range(pages)), written
    return job


def test_the_queue_is_served_by_priority_and_then_in_order():
    roster = Roster(PAGE)
    for number, priority in ((3, 0), (1, 0), (4, 2), (2, 2), (5, 1)):
        roster.enqueue(a_job(number, priority=priority))
    served = [roster.to_admitting().number for _ in range(5)]
    assert served == [2, 4, 5, 1, 3]
    assert not roster.queue
    assert roster.running == 5  # admitting counts


def test_a_job_that_comes_back_takes_its_old_place():
    roster = Roster(PAGE)
    for number in (1, 2, 3):
        roster.enqueue(a_job(number))
    job = roster.to_admitting()
    del roster.admitting[job.number]
    roster.enqueue(job)
    assert [each.number for each in roster.queue] == [1, 2, 3]


def test_a_job_is_in_one_place_on_its_way_through():
    roster = Roster(PAGE)
    roster.enqueue(a_job(1))
    job = opened(roster.to_admitting(), pages=3, written=10)
    assert job.state is JobState.ADMITTING
    del roster.admitting[job.number]
    roster.to_loading(job)
    assert (job.state, roster.running) == (JobState.LOADING, 1)
    roster.remove(job)
    roster.to_prefill(job)
    assert (job.state, roster.running) == (JobState.PREFILL, 1)
    roster.remove(job)
    roster.to_decode(job)
    assert (job.state, roster.running) == (JobState.DECODE, 1)
    roster.to_stalled(job)
    assert (len(roster.decoder), roster.running) == (0, 1)
    roster.remove(job)
    assert roster.running == 0
    assert list(roster.active()) == []


def test_prefill_goes_in_order_of_service_and_its_backlog_is_what_is_unwritten():
    roster = Roster(PAGE)
    for number, priority, written in ((2, 0, 4), (1, 0, 0), (3, 1, 8)):
        roster.to_prefill(opened(a_job(number, priority=priority), written=written))
    assert [job.number for job in roster.prefill] == [3, 1, 2]
    assert roster.prefill_backlog() == 6 + 10 + 2


def test_promised_pages_are_the_rest_of_prompts_and_a_share_of_answers():
    roster = Roster(PAGE)
    roster.to_prefill(opened(a_job(1, prompt=10, output=16), pages=1))  # 11 tokens: 2 pages more
    assert roster.promised_pages(0.0) == 2
    assert roster.promised_pages(0.5) == 2 + 2
    roster.to_loading(opened(a_job(2, prompt=12, output=1), pages=3))  # 13 tokens: 1 more
    assert roster.promised_pages(0.5) == 2 + 2 + 1
    for number in (3, 4):
        job = opened(a_job(number, output=9), pages=4, written=10)
        job.generated = 1
        roster.to_decode(job)
    assert roster.promised_pages(0.5) == 5 + int(16 * 0.5) // PAGE
    roster.decoder.step()
    roster.to_stalled(job)
    assert roster.promised_pages(0.5) == 5 + int(14 * 0.5) // PAGE


def test_who_holds_pages_that_can_be_taken():
    roster = Roster(PAGE)
    roster.to_loading(opened(a_job(1)))
    roster.to_prefill(opened(a_job(2)))
    roster.to_decode(opened(a_job(3), pages=3, written=10))
    roster.to_decode(opened(a_job(4), pages=3, written=10))
    roster.to_stalled(roster.decoder.jobs[4])
    roster.enqueue(a_job(5))
    assert sorted(job.number for job in roster.holders()) == [2, 3, 4]
    assert sorted(job.number for job in roster.active()) == [1, 2, 3, 4]
