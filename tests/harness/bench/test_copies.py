"""The benchmark of copies times every layout in both directions beside a plain copy."""

from cache.layout import Layout
from harness.bench import copies as bench


def test_the_table_sets_every_layout_beside_a_plain_copy():
    sheet = bench.measure(1, pages=2)
    names = [row[0] for row in sheet.rows]
    assert names[0] == "plain copy"
    assert len(names) == 1 + 2 * len(Layout)
    assert all(0 < least <= middle <= most for _, middle, least, most, _ in sheet.rows)


def test_slots_are_many_different_ones_in_no_order():
    slots = bench._shuffled(50, bench.SplitMix(3))
    assert len(set(slots)) == 50
    assert max(slots) < 100
    assert slots != sorted(slots)
