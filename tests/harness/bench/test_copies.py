"""The benchmark of copies times every layout in both directions beside a plain copy."""

import pytest

from cache.layout import Layout
from harness.bench import copies as bench
from harness.device.movers import best_device


def test_the_table_sets_every_layout_beside_a_plain_copy():
    sheet = bench.measure(1, pages=2)
    names = [row[0] for row in sheet.rows]
    assert names[0].startswith("plain copy")
    assert {f"backup to {layout}" for layout in Layout} < set(names)
    assert {f"load-back from {layout}" for layout in Layout} < set(names)
    assert all(0 < least <= middle <= most for _, _, middle, least, most, _ in sheet.rows)
    assert all(row[-1] == 1 for row in sheet.rows if row[0].startswith("plain"))


def test_every_copy_that_is_timed_brings_whole_pages():
    for timed in bench._work(2, best_device()):
        timed.run()
        if timed.backend:
            target, slots = timed.run.args[0], timed.run.args[-1]
            store = getattr(timed.run.func, "__self__", target)
            assert store.damaged(slots) == [], timed.name


def test_a_share_is_taken_within_a_repeat():
    plain = bench.Timed("plain copy", "", "plain copy", list)
    copy = bench.Timed("backup", "direct", "plain copy", list)
    assert bench._shares({plain: [2.0, 4.0], copy: [1.0, 4.0]}, copy) == [0.5, 1.0]


def test_slots_are_many_different_ones_in_no_order():
    slots = bench._shuffled(50, bench.SplitMix(3))
    assert len(set(slots)) == 50
    assert max(slots) < 100
    assert slots != sorted(slots)


@pytest.mark.gpu
def test_on_a_gpu_copies_reach_their_share_of_the_link_and_the_kernel_is_no_slower():
    sheet = bench.measure(9, pages=64)
    shares = {(row[0], row[1]): row[-1] for row in sheet.rows if row[1]}
    best = {name: max(shares[name, b] for b in ("direct", "kernel")) for name, _ in shares}
    assert all(best[f"{way} {layout}"] >= bench.PROMISED_ON_GPU
               for way in ("backup to", "load-back from") for layout in Layout)  # fmt: skip
    assert all(shares[name, "kernel"] >= 0.95 * shares[name, "direct"] for name, _ in shares)
