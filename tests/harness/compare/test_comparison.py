"""Two runs alike show no difference; a slower one shows how much slower it is."""

from dataclasses import replace

import pytest

from harness.compare.comparison import compare
from harness.compare.sides import pair, read_side
from harness.compare.words import change, headline, notes, value
from harness.record.directory import UsageError
from tests.harness.compare.runs import noisy, run, slower


def _compare(a, b, *, different_workloads=False, seed=42, resamples=400):
    sides = pair(read_side(a), read_side(b), different_workloads=different_workloads)
    return compare(sides, confidence=0.95, resamples=resamples, seed=seed)


def _rows(found):
    return {row.metric: row for row in found.rows}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return run(tmp_path_factory.mktemp("base"), noisy, summary={"host_evicted_pages": 5})


def test_a_run_against_itself_is_the_same_to_the_bit(base):
    found = _compare(base, base)
    assert headline(found).startswith("No difference in any of ")
    assert all(row.ratio == 1.0 and row.difference == 0.0 for row in found.rows)
    assert all(row.interval in (None, (1.0, 1.0, 0.0, 0.0, 1.0)) for row in found.rows)


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_runs_that_differ_by_chance_alone_show_no_difference(base, tmp_path, seed):
    found = _compare(base, run(tmp_path, noisy, seed=seed))
    assert found.sides.paired
    assert not found.worded("worse")
    assert not found.worded("better")


def test_a_slower_run_is_told_by_how_much_and_its_interval_holds_the_truth(base, tmp_path):
    found = _compare(base, run(tmp_path, slower(1.1), seed=5))
    rows = _rows(found)
    for metric in ("median_ttft_ms", "p90_ttft_ms", "mean_prefill_ms", "median_tpot_ms"):
        row = rows[metric]
        assert row.word == "worse", metric
        assert row.interval.ratio_low <= 1.1 <= row.interval.ratio_high
    assert rows["prefix_token_hit_rate"].word == "same"
    assert rows["p99_ttft_ms"].word == "too few"
    assert rows["median_ttft_ms"].worse_by(0.05)
    assert not rows["median_ttft_ms"].worse_by(0.2)


def test_the_other_way_round_it_is_better(base, tmp_path):
    faster = _rows(_compare(base, run(tmp_path, slower(0.8), seed=6)))
    assert faster["median_ttft_ms"].word == "better"
    assert not faster["median_ttft_ms"].worse_by(0.0)


def test_fewer_hits_are_worse(base, tmp_path):
    def fewer(row, chance):
        return _halved(noisy(row, chance))

    rows = _rows(_compare(base, run(tmp_path, fewer, seed=7)))
    assert rows["prefix_token_hit_rate"].word == "worse"
    assert rows["hit_rate_device"].word == "differs"
    assert rows["ideal_token_hit_rate"].word == "same"


def _halved(row):
    return replace(row, cached_tokens_device=row.cached_tokens_device // 2)


def test_pairing_is_what_makes_a_small_difference_visible(base, tmp_path):
    other = run(tmp_path, slower(1.03), seed=8)
    paired = _rows(_compare(base, other))["mean_ttft_ms"]
    free = _rows(_compare(base, run(tmp_path, slower(1.03), seed=8, digest="other"),
                          different_workloads=True))["mean_ttft_ms"]  # fmt: skip
    assert (paired.word, free.word) == ("worse", "same")


def test_requests_that_one_run_did_not_complete_are_left_out_and_told(base, tmp_path):
    def lossy(row, chance):
        return None if row.turn == 4 else noisy(row, chance)

    found = _compare(base, run(tmp_path, lossy, seed=9))
    assert found.sides.alone[0] > 50
    assert found.sides.alone[1] == 0
    assert any("Only A completed" in note for note in notes(found))
    ids = found.sides.a.requests["request_id"]
    assert list(ids) == list(found.sides.b.requests["request_id"])


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(base, tmp_path):
    other = run(tmp_path, slower(1.1), seed=5)
    once, again, anew = (_compare(base, other, seed=seed).rows for seed in (1, 1, 2))
    assert once == again
    assert [r.interval for r in once] != [r.interval for r in anew]


def test_numbers_of_which_a_run_gives_one_have_no_interval(base, tmp_path):
    other = run(tmp_path, noisy, seed=2, summary={"host_evicted_pages": 9})
    row = _rows(_compare(base, other))["host_evicted_pages"]
    assert (row.a, row.b, row.interval, row.word) == (5.0, 9.0, None, "one number")


def test_different_workloads_are_refused_in_one_line(base, tmp_path):
    other = run(tmp_path, noisy, digest="beef")
    with pytest.raises(UsageError, match="--different-workloads") as told:
        _compare(base, other)
    assert "\n" not in str(told.value)
    found = _compare(base, other, different_workloads=True)
    assert not found.sides.paired
    assert any(note.startswith("Not paired") for note in notes(found))


def test_a_run_without_completed_requests_is_refused(base, tmp_path):
    with pytest.raises(UsageError, match="nothing to compare"):
        _compare(base, run(tmp_path, lambda row, chance: None))


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(1.0, "0 %"), (1.123, "+12 %"), (0.95, "-5.0 %"), (1.0012, "+0.12 %"), (4.25, "x 4.25"),
     (float("nan"), "no ratio")],
)  # fmt: skip
def test_changes_are_told_in_words(ratio, words):
    assert change(ratio) == words


def test_values_carry_their_units(base):
    rows = _rows(_compare(base, base))
    assert value(rows["prefix_token_hit_rate"], 0.5) == "50 %"
    assert value(rows["request_throughput"], 2.0) == "2 req/s"
    assert value(rows["mean_ttft_ms"], float("nan")) == "none"
