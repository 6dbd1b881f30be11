"""One request's life: what it knows, and its place in the order of service."""

import numpy as np
import pytest

from cache.keys import Key
from harness.engine.job import Job, token_bytes
from tests.harness.engine.build import request


def a_job(number: int = 1, *, priority: int = 0) -> Job:
    wanted = request("r", 6, 5, priority=priority)
    prompt, answer = token_bytes(wanted.prompt_tokens(50)), token_bytes(wanted.output_tokens(50))
    return Job(wanted, "r", number, 0.0, 0.0, Key(prompt, 2), answer, 5)


def test_higher_priorities_come_first_and_equals_in_order_of_arrival():
    jobs = [a_job(1), a_job(2, priority=1), a_job(3), a_job(4, priority=1)]
    assert [job.number for job in sorted(jobs, key=lambda job: job.order)] == [2, 4, 1, 3]


def test_a_job_comes_to_know_its_answer_token_by_token():
    whole = a_job()
    tokens = np.concatenate([whole.request.prompt_tokens(50), whole.request.output_tokens(50)])
    job = a_job()
    for generated in (0, 1, 1, 3, 2, 5):
        job.know(generated)
        known = 6 + max(generated, job.key.tokens - 6)
        assert job.key.tokens == known
        assert job.key.data == token_bytes(tokens[:known])
    assert job.key.prints() == Key(token_bytes(tokens), 2).prints()


@pytest.mark.parametrize("order", ["<", ">"])
def test_tokens_are_little_endian_on_every_machine(order):
    tokens = np.array([1, 258, -1], f"{order}i4")
    assert token_bytes(tokens) == b"\1\0\0\0\2\1\0\0\xff\xff\xff\xff"
