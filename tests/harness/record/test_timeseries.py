"""A time series stays small, says when, and repeats byte for byte."""

from itertools import pairwise

import pytest

from harness.record.timeseries import HEADER, TimeSeries


def series_of(path, samples, *, capacity=8):
    series = TimeSeries(path, capacity=capacity)
    for elapsed_s, value in samples:
        series.add(elapsed_s, {"queue_requests": value})
    assert series.close() is None
    return [line.split(",") for line in path.read_text().splitlines()]


def test_a_sample_becomes_tidy_rows_in_virtual_time(tmp_path):
    series = TimeSeries(tmp_path / "t.csv")
    series.add(90.25, {"queue_requests": 3, "hit_rate_host": 0.5, "hit_rate_device": float("nan")})
    assert series.close() is None
    assert (tmp_path / "t.csv").read_text().splitlines() == [
        HEADER,
        "1970-01-01T00:01:30.250Z,90.25,queue_requests,requests,last,3",
        "1970-01-01T00:01:30.250Z,90.25,hit_rate_host,ratio,interval,0.5",
    ]


@pytest.mark.parametrize("number", [8, 9, 100, 1001])
def test_a_run_of_any_length_keeps_a_bounded_number_of_samples(tmp_path, number):
    rows = series_of(tmp_path / "t.csv", [(float(i), i) for i in range(number)])[1:]
    assert len(rows) <= 9
    assert len(rows) >= 4
    times = [float(row[1]) for row in rows]
    assert times[0] == 0
    assert times[-1] == number - 1, "the newest sample is always there"
    gaps = [after - before for before, after in pairwise(times[:-1])]
    assert max(gaps, default=0) == min(gaps, default=0), "kept samples are evenly spaced"


def test_samples_at_one_moment_stay_bounded_too(tmp_path):
    rows = series_of(tmp_path / "t.csv", [(0.0, i) for i in range(1000)])
    assert len(rows) <= 10


def test_the_interval_doubles_and_tells_the_engine_how_often_to_sample(tmp_path):
    series = TimeSeries(tmp_path / "t.csv", capacity=4)
    seen = []
    for tick in range(20):
        series.add(float(tick), {"queue_requests": tick})
        seen.append(series.interval_s)
    series.close()
    assert sorted(set(seen)) == [0, 2, 4, 8]


def test_the_same_samples_write_the_same_bytes(tmp_path):
    samples = [(i / 3, i * 0.1) for i in range(50)]
    series_of(tmp_path / "a.csv", samples)
    series_of(tmp_path / "b.csv", samples)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_a_name_nobody_defined_is_a_programmer_error(tmp_path):
    series = TimeSeries(tmp_path / "t.csv")
    with pytest.raises(AssertionError, match="hit_ratio"):
        series.add(0.0, {"hit_ratio": 1.0})
    series.close()
