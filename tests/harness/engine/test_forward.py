"""Forward passes: chunks that end on pages, tokens that are counted once, gaps that add up."""

import pytest

from cache.null import NullCache
from cache.observer import Observer
from cache.unified import UnifiedCache
from harness.engine.job import JobStatus
from harness.engine.scheduler import Limits
from harness.explore.prng import derive
from tests.harness.engine.build import Fixed, alone, build, config, judge, request, run
from workloads.request import Request
from workloads.tokens import Span

BOTH = pytest.mark.parametrize("cache_type", [UnifiedCache, NullCache])
US = 1e-6


class Commits(Observer):
    """Where each chunk of a request ended (tokens)."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, int]] = []

    def committed(self, table, result):
        self.ends.append((table.holder, table.written))


@pytest.mark.parametrize(
    ("chunk", "ends"),
    [
        (4, [4, 8, 12, 16, 18]),
        (7, [4, 8, 12, 18]),
        (8, [8, 16, 18]),
        (16, [16, 18]),
        (18, [18]),
        (1000, [18]),
    ],
)
def test_all_chunks_but_the_last_end_on_a_page(chunk, ends):
    commits = Commits()
    limits = Limits(chunked_prefill_size=chunk)
    ran = build(config(page=4), alone(request("r", 18, 1)), limits=limits, watchers=[commits])
    judge(run(ran, audits=True))
    assert [end for _, end in commits.ends] == [*ends, 18]  # the last once more, at the end
    assert ran["r"].chunks == len(ends)


def test_one_batch_takes_chunks_of_several_requests_as_far_as_its_budget_goes():
    commits = Commits()
    requests = [request(f"r{i}", 10, 1, stream=i) for i in range(3)]
    limits = Limits(chunked_prefill_size=16)
    judge(run(build(config(), alone(*requests), limits=limits, watchers=[commits])))
    assert commits.ends[:2] == [("r0", 10), ("r0", 10)]  # committed, finished
    assert ("r1", 4) in commits.ends  # 6 tokens of budget were left: one page
    assert ("r2", 10) in commits.ends


def test_a_chunk_shrinks_to_the_room_that_there_is():
    commits = Commits()
    requests = [
        request("holds", 8, 12, stream=1),  # 5 pages in the end
        request("squeezes", 32, 1, stream=2, arrival_s=US),
    ]
    limits = Limits(new_token_ratio=0.0)
    ran = build(config(device=12), alone(*requests), limits=limits, watchers=[commits])
    judge(run(ran))
    assert all(job.status is JobStatus.COMPLETED for job in ran.jobs)
    assert ran["squeezes"].chunks >= 1


def test_decode_waits_for_prefill():
    requests = [request("d", 4, 30, stream=1), request("p", 40, 1, stream=2, arrival_s=5 * US)]
    limits = Limits(chunked_prefill_size=8)
    ran = build(config(), alone(*requests), limits=limits, compute=Fixed())
    judge(run(ran))
    assert ran["p"].chunks == 5
    long = [seconds for seconds, _ in ran.gaps if seconds > 1.5 * US]
    assert long == [pytest.approx(6 * US)]  # five chunks stood between two of its tokens


@BOTH
def test_the_first_token_comes_with_the_prefill_and_the_rest_one_a_step(cache_type):
    ran = build(config(), alone(request("r", 9, 6)), compute=Fixed(), cache_type=cache_type)
    judge(run(ran))
    job = ran["r"]
    assert job.first_token_s == pytest.approx(US)
    assert job.end_s == pytest.approx(6 * US)
    assert ran.gaps == [(pytest.approx(US), 1)] * 5
    assert ran.scheduler.forward.steps == 6


@BOTH
def test_a_single_token_ends_with_the_prefill(cache_type):
    ran = build(config(), alone(request("r", 9, 1), request("none", 9, 0)), cache_type=cache_type)
    judge(run(ran))
    assert ran["r"].end_s == ran["r"].first_token_s
    assert ran["none"].generated == 1  # a server answers with a token at least
    assert ran.gaps == []


@BOTH
def test_gaps_of_a_retracted_request_span_its_absence(cache_type):
    """Each answer's gaps add up to the time from its first token to its last."""
    requests = [request(f"r{i}", 8, 40, stream=i) for i in range(4)]
    limits = Limits(new_token_ratio=0.0)
    ran = build(config(device=14), alone(*requests), limits=limits, cache_type=cache_type)
    judge(run(ran))
    assert ran.marks.counts["retraction"] > 0
    spans = sum(job.end_s - job.first_token_s for job in ran.jobs)
    assert sum(seconds * count for seconds, count in ran.gaps) == pytest.approx(spans)
    assert sum(count for _, count in ran.gaps) == 4 * 39


def test_a_window_is_read_as_far_as_attention_sees():
    """What is read is checked by `build`; here, that every stage does read."""
    settings = config(page=4, device=40, window=6, swa_device=6)
    limits = Limits(chunked_prefill_size=8)
    ran = judge(run(build(settings, alone(request("r", 41, 30)), limits=limits)))
    before_chunks = sum(start // 4 for start in (0, 8, 16, 24, 32, 40))
    full_pages = sum(written // 4 for written in range(44, 70, 4))
    assert ran.content.pages == before_chunks + full_pages + 70 // 4


def sharing(name: str, own: int, arrival_s: float) -> Request:
    """16 tokens that everybody has, then 9 of its own."""
    answer = Span(derive(0, "answer", name), 0, 1)
    prompt = (Span(1, 0, 16), Span(own, 0, 9))
    return Request(name, f"s-{name}", 0, prompt, (answer,), arrival_s=arrival_s)


@pytest.mark.parametrize(
    ("states", "hits", "cuts"), [(8, [0, 0, 16], [("b", 16)]), (0, [0, 16, 16], [])]
)
def test_a_chunk_ends_where_the_prompt_leaves_what_others_have_asked_for(states, hits, cuts):
    """There a state is kept, with which whoever comes next can begin. Without states any page of
    the common prefix serves."""
    commits = Commits()
    requests = [sharing(name, own, own * 1.0) for own, name in enumerate("abc", 2)]
    settings = config(page=4, device=64, states=states)
    ran = judge(run(build(settings, alone(*requests), watchers=[commits])))
    assert [ran[name].device_tokens for name in "abc"] == hits
    assert [commit for commit in commits.ends if commit[1] == 16] == cuts
