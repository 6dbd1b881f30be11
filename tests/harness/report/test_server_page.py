"""A load's report shows the server beside its client."""

import pytest

from harness.report.files import read_run
from harness.report.page import build_report
from harness.report.plots import pictures, server_pictures
from harness.report.server_tables import both_sides, moved
from tests.harness.record.feed import record
from tests.harness.record.test_output_doc import table
from tests.harness.report.loaded import loaded

STALL = {"oracle": "P1", "signature": "stall", "expected": "answers go on", "seen": "3 in flight",
         "step": 9, "elapsed_s": 2000.0}  # fmt: skip
ALL = ["server_health", "server_ttft", "server_hits", "server_pools", "server_moves"]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    return loaded(tmp_path_factory.mktemp("load"), found=[STALL])


@pytest.fixture(scope="module")
def drawn(run_dir):
    return {picture.name: picture.finding for picture in server_pictures(read_run(run_dir))}


def test_every_picture_of_the_server_is_drawn_and_documented(drawn):
    assert list(drawn) == ALL
    assert [row[0] for row in table("Files", number=1)] == [f"{name}.png" for name in ALL]


def test_titles_say_what_was_found(drawn):
    assert drawn["server_health"] == (
        "The server gave no answer to 2 of 90 looks; first finding: stall at 2000.0 s"
    )
    assert drawn["server_ttft"].endswith("500 ms by the server's own clock")
    assert drawn["server_hits"].startswith("By the server's count: device 33 %, host 15 % of")
    assert drawn["server_pools"].endswith("device 88 %, host 90 %")
    assert drawn["server_moves"].startswith("89,000 tokens evicted")


def test_queues_are_shown_once(run_dir):
    assert "queue_over_time" not in [picture.name for picture in pictures(read_run(run_dir))]


def test_the_page_has_both_sides_and_the_servers_settings(run_dir):
    html = build_report(run_dir).read_text()
    words = ("The server</h2>", "server - client", "mean TTFT, from the send", "0.5.23", "not told")
    assert [word for word in words if word not in html] == []


def test_both_sides_are_subtracted(run_dir):
    run = read_run(run_dir)
    cells = {row[0]: row[1:] for row in both_sides(run).rows}
    completed = int((run.everything["status"] == "completed").sum())
    assert cells["requests completed"] == (f"{completed}", "116", f"{116 - completed:+}")
    assert "hit tokens, host" not in cells  # the server never told it


def test_what_the_server_did_not_tell_is_not_shown_as_zero():
    rows = dict(moved({"server_evicted_tokens": 0}).rows)
    assert rows["evicted from the device, tokens"] == "0"
    assert rows["loaded back from the host, tokens"] == "not told"


def test_a_server_that_tells_only_a_share_of_its_pool_is_drawn_as_a_share(tmp_path):
    usage = loaded(tmp_path, samples=lambda n: {"server_up": 1.0, "server_device_usage": n / 90})
    drawn = {picture.name: picture.finding for picture in server_pictures(read_run(usage))}
    assert list(drawn) == ["server_health", "server_pools"]
    assert drawn["server_pools"] == "The device's pool was at most 99 % full"


def test_a_server_without_metrics_has_its_health_alone(tmp_path):
    bare = loaded(tmp_path, samples=lambda n: {"server_up": 1.0, "in_flight_requests": 1.0})
    assert [picture.name for picture in server_pictures(read_run(bare))] == ["server_health"]
    build_report(bare)


def test_a_soak_has_no_server(tmp_path):
    directory = record(tmp_path, number=20, samples=5)
    assert server_pictures(read_run(directory.path)) == []
    assert "The server</h2>" not in build_report(directory.path).read_text()
