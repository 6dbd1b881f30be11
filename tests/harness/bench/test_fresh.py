"""A fresh process gives its result back, and its memory is its own."""

import pytest

from harness.bench.fresh import in_fresh_process, peak_rss_bytes

HELD_BYTES = 200_000_000


def test_the_result_comes_back():
    assert in_fresh_process(divmod, 17, 5) == (3, 2)


def test_an_error_comes_back():
    with pytest.raises(ZeroDivisionError):
        in_fresh_process(divmod, 17, 0)


def test_the_peak_of_a_process_is_not_that_of_its_parent():
    held = bytearray(b"x") * HELD_BYTES
    here, there = peak_rss_bytes(), in_fresh_process(peak_rss_bytes)
    assert here > len(held)
    assert 1_000_000 < there < here - HELD_BYTES / 2
