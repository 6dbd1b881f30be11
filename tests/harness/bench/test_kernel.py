"""The benchmark of the kernel makes as many announcements as it says."""

import pytest

from harness.bench import kernel as bench
from harness.explore.kernel import Kernel


@pytest.mark.parametrize("case", bench.CASES, ids=lambda case: case[0])
def test_every_case_announces_as_often_as_it_is_told(case):
    _, spawn, picker = case
    announced = []
    kernel = Kernel()
    spawn(kernel, 100)
    kernel.on_step = lambda task, point: announced.append(point.name)
    assert kernel.run(picker(), step_limit=1000).reason == "finished"
    assert sum(name.startswith("bench.") for name in announced) == 100


def test_the_table_has_a_row_for_every_case():
    sheet = bench.measure(2, announcements=100)
    assert [row[0] for row in sheet.rows] == [name for name, _, _ in bench.CASES]
    assert all(least <= middle <= most for _, middle, least, most, _ in sheet.rows)
