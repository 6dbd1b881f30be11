"""The summary is what numpy says about the rows."""

import math

import numpy as np
import pytest

from harness.record.histogram import Histogram
from harness.record.requests import RequestColumns
from harness.record.summary import LATENCY_STEMS, REQUEST_KEYS, STATISTICS, summarise
from tests.harness.record.feed import rows


@pytest.fixture(scope="module")
def recorded():
    everything = list(rows(500))
    columns = RequestColumns()
    for row in everything:
        columns.add(row)
    steady = [row for row in everything if row.phase == "steady"]
    return summarise(columns, Histogram()), steady


@pytest.mark.parametrize("stem", [stem for stem in LATENCY_STEMS if stem != "itl_ms"])
def test_statistics_are_numpys(recorded, stem):
    summary, steady = recorded
    values = np.array([getattr(row, stem) for row in steady if row.status == "completed"])
    values = values[~np.isnan(values)]
    expected = [
        values.mean(),
        np.median(values),
        values.std(),
        np.percentile(values, 90),
        np.percentile(values, 99),
    ]
    assert [summary[f"{name}_{stem}"] for name in STATISTICS] == pytest.approx(expected)


def test_throughputs_and_hit_rates_have_the_denominators_in_their_names(recorded):
    summary, steady = recorded
    done = [row for row in steady if row.status == "completed"]
    seconds = (max(r.end_ns for r in steady) - min(r.scheduled_ns for r in steady)) / 1e9
    prompt = sum(row.prompt_tokens for row in done)
    output = sum(row.output_tokens for row in done)
    device = sum(row.cached_tokens_device for row in done)
    host = sum(row.cached_tokens_host for row in done)
    expected = {
        "completed": len(done),
        "warmup_requests": 10,
        "duration_s": seconds,
        "request_throughput": len(done) / seconds,
        "input_throughput": prompt / seconds,
        "output_throughput": output / seconds,
        "total_token_throughput": (prompt + output) / seconds,
        "prefix_token_hit_rate": (device + host) / prompt,
        "eligible_token_hit_rate": (device + host) / sum(row.eligible_tokens for row in done),
        "ideal_token_hit_rate": sum(row.ideal_tokens for row in done) / prompt,
        "tier_hit_share_device": device / (device + host),
        "tier_hit_share_host": host / (device + host),
        "tier_hit_share_storage": 0,
    }
    assert {key: summary[key] for key in expected} == pytest.approx(expected)


def test_itl_comes_from_the_histogram_in_milliseconds():
    itl = Histogram()
    itl.add(0.010, 99)
    itl.add(1.0, 1)
    summary = summarise(RequestColumns(), itl)
    assert summary["median_itl_ms"] == pytest.approx(10, rel=0.004)
    assert summary["mean_itl_ms"] == pytest.approx(19.9)


def test_a_run_without_requests_is_all_zeros_and_no_nan():
    summary = summarise(RequestColumns(), Histogram())
    assert set(summary.values()) == {0}
    assert not any(math.isnan(float(value)) for value in summary.values())


def test_the_keys_are_exactly_the_documented_ones():
    latencies = {f"{name}_{stem}" for stem in LATENCY_STEMS for name in STATISTICS}
    assert set(summarise(RequestColumns(), Histogram())) == latencies | set(REQUEST_KEYS)


def test_counters_are_merged_but_never_replace_a_number():
    summary = summarise(RequestColumns(), Histogram(), {"verdict": "pass", "events": 3})
    assert (summary["verdict"], summary["events"]) == ("pass", 3)
    with pytest.raises(AssertionError, match="completed"):
        summarise(RequestColumns(), Histogram(), {"completed": 3})
