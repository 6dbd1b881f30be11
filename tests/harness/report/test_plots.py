"""Every picture can be drawn from any run, and its title says what the data say."""

import struct
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from harness.record.directory import RunDirectory
from harness.record.run import Recorder
from harness.report.canvas import DOTS_PER_INCH, WIDTH_IN
from harness.report.files import RunFiles, read_run
from harness.report.memory_plot import memory_over_time
from harness.report.plots import pictures
from harness.report.quantities import percent
from harness.report.ttft_plots import ttft_over_time
from tests.harness.record.feed import MANIFEST, POOLS, record, rows, sample

ALL = [
    "ttft_over_time",
    "ttft_distribution",
    "ttft_parts",
    "hit_rate_over_time",
    "memory_over_time",
    "queue_over_time",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunFiles:
    return read_run(record(tmp_path_factory.mktemp("run"), number=400, samples=200).path)


def recorded(tmp_path, requests, *, samples=0, manifest=MANIFEST) -> RunFiles:
    directory = RunDirectory.create(tmp_path, "x")
    with Recorder(directory, manifest) as recorder:
        for row in requests:
            recorder.request(row)
        for tick in range(samples):
            recorder.sample(float(tick), sample(float(tick)))
        recorder.finish(recorder.summary())
    return read_run(directory.path)


def test_a_full_run_has_every_picture_at_its_width(run):
    drawn = pictures(run)
    assert [picture.name for picture in drawn] == ALL
    for picture in drawn:
        assert picture.png.startswith(b"\x89PNG")
        assert struct.unpack(">I", picture.png[16:20]) == (WIDTH_IN * DOTS_PER_INCH,)


def test_titles_are_findings_taken_from_the_data(run):
    titles = {picture.name: picture.finding for picture in pictures(run)}
    p50, p99 = np.percentile(run.requests["ttft_scheduled_ms"], (50, 99))
    assert titles["ttft_over_time"] == f"TTFT p50 {p50:.0f} ms, p99 {p99 / 1e3:.1f} s"
    cached = run.requests[["cached_tokens_device", "cached_tokens_host"]].to_numpy().sum()
    rate = 100 * cached / run.requests["prompt_tokens"].sum()
    assert titles["hit_rate_over_time"].startswith(f"{rate:.1f} % of the prompt tokens")
    waited = int(run.series["queue_requests"].max())
    assert titles["queue_over_time"].startswith(f"At most {waited} requests waited")
    full = run.series["device_full_used_pages"].max() / POOLS[0].pages
    assert f"device FULL {percent(full)}" in titles["memory_over_time"]


def test_the_same_run_gives_the_same_bytes(run):
    assert [picture.png for picture in pictures(run)] == [picture.png for picture in pictures(run)]


@pytest.mark.parametrize("number", [1, 2, 5])
def test_a_handful_of_requests_is_enough(tmp_path, number):
    done = [row for row in rows(60) if row.status == "completed" and row.phase == "steady"]
    drawn = pictures(recorded(tmp_path, done[:number], samples=1))
    assert [picture.name for picture in drawn] == ALL


def test_model_time_that_stands_still_can_be_drawn(tmp_path):
    still = {"ttft_ms": 0.0, "ttft_scheduled_ms": 0.0, "scheduled_ns": 0, "queue_ms": 0.0}
    parts = {"match_ms": 0.0, "load_ms": 0.0, "prefill_ms": 0.0}
    done = [
        replace(row, **still, **parts)
        for row in rows(60)
        if row.status == "completed" and row.phase == "steady"
    ]
    drawn = pictures(recorded(tmp_path, done))
    assert [picture.name for picture in drawn] == [ALL[0], ALL[1], ALL[3]]
    assert drawn[0].finding == "TTFT p50 0 ms, p99 0 ms"


def test_some_zeros_do_not_hide_the_rest(tmp_path):
    done = [
        replace(row, ttft_scheduled_ms=0.0 if index % 2 else row.ttft_scheduled_ms)
        for index, row in enumerate(rows(200))
        if row.status == "completed" and row.phase == "steady"
    ]
    assert pictures(recorded(tmp_path, done))[1].finding.startswith("99 % of requests")


def test_a_run_with_nothing_to_draw_has_no_pictures(tmp_path):
    refused = [row for row in rows(300) if row.status == "rejected"]
    assert pictures(recorded(tmp_path, refused)) == []


def test_pools_of_unknown_size_are_drawn_in_pages():
    series = pd.DataFrame({"device_full_used_pages": [1, 5, 3]}, index=[0.0, 1.0, 2.0])
    made = memory_over_time(series, [], clock="wall")
    assert made.texts[0].get_text() == "No pool held more than 5 pages"
    assert made.axes[0].get_ylabel() == "pages"
    assert made.axes[0].get_xlabel() == "elapsed time (s)"


def test_the_parts_of_a_stack_add_up_to_what_is_used(run):
    made = memory_over_time(run.series, run.run["pools"], clock="virtual")
    tops = made.axes[0].collections[2].get_paths()[0].vertices[:, 1].max()
    used = run.series["device_full_used_pages"].max() * POOLS[0].page_bytes
    assert tops == pytest.approx(used, rel=1e-6)


def test_a_million_requests_are_drawn_as_at_most_twenty_thousand_points():
    number = 1_000_000
    requests = pd.DataFrame(
        {
            "scheduled_ns": np.arange(number) * 1_000_000,
            "ttft_scheduled_ms": np.linspace(1, 2, number),
        }
    )
    made = ttft_over_time(requests, clock="virtual")
    axes = made.axes[0]
    assert len(axes.collections[0].get_offsets()) == 20_000
    assert axes.get_legend().get_texts()[-1].get_text() == "one request in 50"


def test_the_lines_are_percentiles_of_their_windows(run):
    axes = ttft_over_time(run.requests, clock="virtual").axes[0]
    p50, p90, p99 = (line.get_ydata() for line in axes.get_lines()[:3])
    assert len(p50) == len(run.requests) // 25
    assert np.all((p50 < p90) & (p90 < p99))
    ttft_ms = run.requests["ttft_scheduled_ms"]
    assert ttft_ms.min() < p50.min()
    assert p99.max() <= ttft_ms.max()
