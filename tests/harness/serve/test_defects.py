"""A defect of the cache is seen while it serves, by the oracles and by a client that compares."""

import time

import httpx
import pytest

from cache.contract import BrokenInvariant
from tests.harness.serve.live import serving

PROMPT = [300 + n for n in range(100)]


def test_a_spoilt_page_is_counted_and_changes_the_answer(tmp_path):
    with serving(tmp_path, fault="canary") as live:
        first = live.complete(PROMPT)
        again = live.complete(PROMPT)
        assert again["choices"] != first["choices"]
        assert live.metrics()["kvtorture:violations_total"] > 0
    assert live.served[0].verdict.value == "violation"


def test_a_crash_of_the_cache_ends_every_answer_and_the_servers_health(tmp_path):
    with serving(tmp_path) as live:
        live.complete("a")

        def crash(*given):
            raise BrokenInvariant("S1", "test", "a tree", "none")

        live.engine.cache.match = crash
        reply = live.client.post("/v1/completions", json={"prompt": "b"})
        assert reply.status_code == 503
        assert reply.json()["error"]["type"] == "server_error"
        for path in ("/health", "/metrics", "/get_server_info", "/flush_cache"):
            assert live.client.get(path).status_code == 503
        assert live.client.post("/v1/completions", json={"prompt": "c"}).status_code == 503
    assert live.served[0].verdict.value == "violation"


def test_who_is_told_that_the_engine_has_stopped_finds_it_stopped(tmp_path):
    with serving(tmp_path) as live:
        engine, taken = live.engine, []
        give_up = engine._door.give_up

        def tell(why):
            taken.append(engine._clock.call(lambda: None))  # would anything asked now be done?
            give_up(why)

        def crash(*given):
            raise BrokenInvariant("S1", "test", "a tree", "none")

        engine._door.give_up, engine.cache.match = tell, crash
        assert live.client.post("/v1/completions", json={"prompt": "b"}).status_code == 503
    assert taken == [False]


def test_a_failure_of_the_harness_is_not_called_the_caches(tmp_path):
    with serving(tmp_path) as live:

        def fail(*given):
            raise OSError("no such thing")

        live.engine.latencies.observe = fail
        assert live.client.post("/v1/completions", json={"prompt": "b"}).status_code == 503
    served = live.served[0]
    assert isinstance(served.failed, OSError)
    assert served.verdict.value == "inconclusive"
    assert served.summary["violations"] == 0


def test_a_killed_stream_tells_its_reader_why(tmp_path):
    with serving(tmp_path, compute="roofline") as live:
        body = {"prompt": "a", "max_tokens": 900, "stream": True}
        with live.client.stream("POST", "/v1/completions", json=body) as reply:
            lines = reply.iter_lines()
            next(lines)

            def crash(*given):
                raise BrokenInvariant("S1", "test", "a tree", "none")

            live.engine.cache.match = crash
            httpx.post(f"{live.url}/v1/completions", json={"prompt": "b"}, timeout=60)
            last = [line for line in lines if line][-1]
        assert '"error"' in last
    assert live.served[0].verdict.value == "violation"


@pytest.mark.parametrize("seconds", [0.02])
def test_a_modelled_forward_takes_its_time(tmp_path, seconds):
    """Ten tokens after the first take ten steps, none shorter than the model says."""
    with serving(tmp_path, compute="roofline") as live:
        step = live.engine.plan.compute.overhead_s
        started = time.monotonic()
        live.complete("a", max_tokens=11)
        assert time.monotonic() - started >= 10 * step
