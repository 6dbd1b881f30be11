"""The benchmark of storage times what it says, and holds the capacity up to the disk."""

from harness.bench import storage as bench


def test_the_table_sets_the_store_beside_plain_copies(tmp_path):
    sheet = bench.measure(2, pages=4, folder=tmp_path)
    assert [row[0] for row in sheet.rows] == ["copy files", "write pages", "read pages"]
    assert all(0 < least <= middle <= most for _, middle, least, most, _ in sheet.rows)
    assert sheet.rows[0][-1] == 1
    assert list(tmp_path.iterdir()) == []


def test_the_bound_is_what_lies_on_the_disk(tmp_path):
    bound = bench._bound(tmp_path / "bound", 3)
    assert 2 * bench.PAGE_BYTES < bound.most_bytes <= bound.capacity_bytes
