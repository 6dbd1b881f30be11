"""The decoding batch counts as a loop over its jobs and their tokens would."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from cache.keys import Key
from cache.table import PageTable
from harness.engine.decoder import Decoder
from harness.engine.job import Job
from tests.harness.engine.build import request

PAGE = 4


def a_job(number: int, written: int, pages: int, generated: int, output: int) -> Job:
    table = PageTable(number, f"r{number}", PAGE)
    table.full, table.written = list(range(pages)), written
    wanted = request(f"r{number}", 8, output)
    key = Key(b"", PAGE)
    job = Job(wanted, wanted.request_id, number, 0.0, 0.0, key, b"", output, table=table)
    job.generated = generated
    return job


@dataclass
class Naive:
    """The same batch, one token after the other."""

    job: Job
    written: int
    generated: int
    fresh: bool = True

    @property
    def complete(self) -> bool:
        return self.generated >= self.job.output_len

    @property
    def due(self) -> bool:
        assert self.job.table is not None
        return self.complete or self.written >= self.job.table.capacity_tokens


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 11), st.integers(1, 3), st.integers(1, 9)),
        st.tuples(st.just("step")),
        st.tuples(st.just("leave"), st.integers(0, 9)),
        st.tuples(st.just("return"), st.integers(0, 9)),
    ),
    max_size=60,
)


@given(MOVES)
def test_counters_and_events_equal_a_simulation_token_by_token(moves):
    decoder, batch, left = Decoder(), {}, []
    numbers = 0
    for move in moves:
        if move[0] == "join":
            _, written, spare, more = move
            numbers += 1
            pages = written // PAGE + spare
            job = a_job(numbers, written, pages, 1 + written % 3, 1 + written % 3 + more)
            decoder.join(job)
            batch[numbers] = Naive(job, written, job.generated)
        elif move[0] == "leave" and batch:
            number = sorted(batch)[move[1] % len(batch)]
            left.append(batch.pop(number))
            decoder.leave(left[-1].job)
            assert left[-1].job.generated == left[-1].generated
        elif move[0] == "return" and left:
            gone = left.pop(move[1] % len(left))
            gone.fresh, gone.job.table.written = True, gone.written
            gone.job.table.full.append(-1)  # it got the page that it left for
            if not gone.complete:
                decoder.join(gone.job)
                batch[gone.job.number] = gone
        elif move[0] == "step":
            step(decoder, batch)
        compare(decoder, batch)


def step(decoder: Decoder, batch: dict[int, Naive]) -> None:
    for each in batch.values():
        each.written, each.generated, each.fresh = each.written + 1, each.generated + 1, False
    due = decoder.step()
    compare(decoder, batch)
    assert [job.number for job in due] == sorted(n for n, each in batch.items() if each.due)
    for job in due:
        if decoder.complete(job):
            decoder.leave(job)
            assert job.generated == batch.pop(job.number).generated == job.output_len
        else:
            job.table.full.append(-1)
            decoder.schedule(job)


def compare(decoder: Decoder, batch: dict[int, Naive]) -> None:
    assert len(decoder) == len(batch)
    assert decoder.context_tokens == sum(each.written for each in batch.values())
    left = sum(each.job.output_len - each.generated for each in batch.values())
    assert decoder.answer_tokens_left == left
    for number, each in batch.items():
        job = decoder.jobs[number]
        assert decoder.written(job) == each.written
        assert decoder.generated(job) == each.generated
        assert decoder.complete(job) == each.complete
    fresh = [number for number, each in batch.items() if each.fresh]
    assert sorted(job.number for job in decoder.joined_now()) == sorted(fresh)


def test_a_job_that_left_and_came_back_has_its_event_once():
    decoder, job = Decoder(), a_job(1, 2, 2, 1, 20)
    decoder.join(job)  # full in 6 steps
    decoder.step()
    decoder.leave(job)
    job.table.written = 3
    decoder.join(job)  # full in 5 steps: the same tick
    for _ in range(4):
        assert decoder.step() == []
    assert decoder.step() == [job]
