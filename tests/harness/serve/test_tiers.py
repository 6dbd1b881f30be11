"""What the cache does shows in usage, in the metrics and in the record, and agrees."""

import csv

import pytest

from tests.harness.serve.live import serving

PAGE = 16


def _prompt(number: int, pages: int) -> list[int]:
    return [1000 + number * 600 + n for n in range(pages * PAGE + 1)]


def _details(reply) -> dict[str, int]:
    return reply["usage"]["prompt_tokens_details"]["cached_tokens_details"]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    settings = {
        "components": ("full",),
        "device_pages": 70,
        "hicache_ratio": 4.0,
        "hicache_write_policy": "write_through",
    }
    with serving(tmp_path_factory.mktemp("runs"), **settings) as live:
        yield live
    assert live.served[0].verdict.value == "pass"


def test_hits_of_the_device_and_of_the_host_are_told_apart(live):
    live.flush()
    before = live.metrics()
    first = live.complete(_prompt(0, 30))
    again = live.complete(_prompt(0, 30))
    for number in (1, 2, 3):  # push it off the device; the host has room for all of it
        live.complete(_prompt(number, 30))
    back = live.complete(_prompt(0, 30))
    assert _details(first) == {"device": 0, "host": 0, "storage": 0}
    assert _details(again) == {"device": 480, "host": 0, "storage": 0}
    assert _details(back)["host"] > 0
    assert sum(_details(back).values()) == 480
    assert first["choices"] == again["choices"] == back["choices"]
    after = live.metrics()
    by_tier = 'sglang:cached_tokens_total{cache_source="%s"}'
    host = after[by_tier % "host"] - before[by_tier % "host"]
    assert host == _details(back)["host"]
    loaded = "sglang:load_back_tokens_total"
    assert after[loaded] - before[loaded] == host
    evicted = 'sglang:evicted_tokens_total{cache_type="full"}'
    assert after[evicted] - before[evicted] >= host
    assert after["sglang:hicache_host_used_tokens"] >= 4 * 480


def test_what_is_not_there_has_no_sample(tmp_path, live):
    assert not any("prefetched" in name or "swa" in name for name in live.metrics())
    with serving(tmp_path, hierarchical=False, components=("full",)) as alone:
        alone.complete("a")
        names = alone.metrics()
    assert not any("host" in name or "load_back" in name for name in names)
    assert 'sglang:cached_tokens_total{cache_source="device"}' in names


def test_salted_prompts_share_nothing(live):
    live.flush()
    live.complete(_prompt(5, 4), cache_salt="a")
    other = live.complete(_prompt(5, 4), cache_salt="b")
    same = live.complete(_prompt(5, 4), cache_salt="a")
    assert sum(_details(other).values()) == 0
    assert sum(_details(same).values()) == 64


def test_a_flush_waits_for_nothing_when_told_so(live):
    live.complete(_prompt(6, 4))
    assert live.client.get("/flush_cache", params={"timeout": 20}).status_code == 200
    assert sum(_details(live.complete(_prompt(6, 4))).values()) == 0
    assert live.client.get("/flush_cache", params={"timeout": "soon"}).status_code == 400


def test_the_record_says_what_the_replies_said(tmp_path):
    with serving(tmp_path, components=("full",)) as live:
        replies = [live.complete(_prompt(n % 3, 5), max_tokens=3) for n in range(9)]
    served = live.served[0]
    path = served.recorded.directory.path
    with (path / "requests.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["request_id"] for row in rows] == [reply["id"] for reply in replies]
    for row, reply in zip(rows, replies, strict=True):
        usage = reply["usage"]
        assert int(row["prompt_tokens"]) == usage["prompt_tokens"]
        assert int(row["output_tokens"]) == usage["completion_tokens"]
        assert int(row["cached_tokens_device"]) == _details(reply)["device"]
        assert int(row["ideal_tokens"]) == _details(reply)["device"]  # nothing was evicted
        assert row["verified"] == "true"
    assert served.summary["completed"] == 9
    assert served.report is not None


def test_storage_is_a_tier_too(tmp_path):
    settings = {
        "components": ("full",),
        "device_pages": 70,
        "hicache_ratio": 1.0,
        "hicache_write_policy": "write_through",
        "hicache_storage_backend": "memory",
        "hicache_storage_prefetch_policy": "wait_complete",
        "prefetch_threshold": 16,
    }
    with serving(tmp_path, **settings) as live:
        first = live.complete(_prompt(0, 30))
        live.flush()  # waits for what is on its way to storage
        again = live.complete(_prompt(0, 30))
        metrics = live.metrics()
    assert _details(again)["storage"] == 480
    assert again["choices"] == first["choices"]
    assert metrics['sglang:cached_tokens_total{cache_source="storage"}'] == 480
    assert metrics["sglang:prefetched_tokens_total"] == 480
    assert metrics["sglang:backuped_tokens_total"] >= 480
