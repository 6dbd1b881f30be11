"""Marks: what counts as an order, what is unseen, and what a verdict needs."""

import pytest

from harness.explore.kernel import Point
from harness.explore.marks import Marks, certify, run_marks

N9, N8 = ("node", 9), ("node", 8)


def story(*steps: tuple[str, Point]) -> tuple[list[str], list[Point]]:
    return [task for task, _ in steps], [point for _, point in steps]


ANCHOR = story(
    ("P0", Point("acquire", N9)),
    ("R0", Point("match", N8, write=False)),
    ("R0", Point("load.done", N9)),
    ("P0", Point("release", N9)),
)


def test_the_anchor_race_is_one_triple() -> None:
    marks = run_marks(*ANCHOR, {"revived": 2})
    assert marks.triples == (("acquire", "load.done", "release"),)
    assert marks.pairs == (("acquire", "load.done"), ("load.done", "release"))
    assert marks.points == {"acquire": 1, "match": 1, "load.done": 1, "release": 1}
    assert marks.sometimes == {"revived": 2}


def test_two_reads_are_no_conflict() -> None:
    reads = story(
        ("A", Point("read", N9, write=False)),
        ("B", Point("read", N9, write=False)),
        ("A", Point("read", N9, write=False)),
    )
    marks = run_marks(*reads)
    assert (marks.pairs, marks.triples) == ((), ())


def test_one_tasks_own_steps_and_other_objects_are_no_pair() -> None:
    marks = run_marks(
        *story(
            ("A", Point("a", N9)), ("A", Point("b", N9)), ("B", Point("c", N8)), ("B", Point("d"))
        )
    )
    assert (marks.pairs, marks.triples) == ((), ())
    assert marks.spans == (("node", "a", "b"),)


def test_a_triple_spans_a_tasks_consecutive_steps_only() -> None:
    marks = run_marks(
        *story(
            ("A", Point("a1", N9)),
            ("B", Point("b1", N9)),
            ("A", Point("a2", N9)),
            ("B", Point("b2", N9)),
            ("A", Point("a3", N9)),
        )
    )
    assert marks.triples == (("a1", "b1", "a2"), ("b1", "a2", "b2"), ("a2", "b2", "a3"))


def test_unseen_mass_counts_orders_seen_once() -> None:
    marks = Marks()
    assert marks.unseen_mass() == 1.0
    marks.add(run_marks(*ANCHOR))
    assert marks.unseen_mass() == 1.0
    for _ in range(9):
        marks.add(run_marks(*ANCHOR))
    assert marks.unseen_mass() == 0.0
    marks.add(run_marks(*story(("A", Point("x", N9)), ("B", Point("y", N9)))))
    assert marks.unseen_mass() == pytest.approx(1 / 11)


def test_only_new_orders_and_marks_are_fresh() -> None:
    marks = Marks()
    assert marks.add(run_marks(*ANCHOR, {"revived": 1})) == 4
    assert marks.add(run_marks(*ANCHOR, {"revived": 1, "host full": 1})) == 1


def test_merging_is_adding() -> None:
    other = story(("A", Point("x", N9)), ("B", Point("y", N9)))
    apart, left, right = Marks(), Marks(), Marks()
    for marks in (apart, left):
        marks.add(run_marks(*ANCHOR, {"revived": 1}))
    for marks in (apart, right):
        marks.add(run_marks(*other))
    left.merge(right)
    assert left == apart


def test_triples_that_could_exist_are_those_of_one_kind_of_object() -> None:
    marks = Marks()
    marks.add(run_marks(*ANCHOR))
    assert list(marks.unseen_triples()) == [
        ("acquire", "acquire", "release"),
        ("acquire", "release", "release"),
        ("acquire", "match", "release"),
    ]


def test_the_failure_bound_is_three_over_n() -> None:
    assert Marks().failure_bound() == 1.0
    assert Marks(schedules=600).failure_bound() == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("violations", "required", "measured", "verdict", "exit_code"),
    [
        (0, {"revived": 1}, {}, "pass", 0),
        (0, {"revived": 2}, {}, "inconclusive", 5),
        (0, {"host full": 1}, {}, "inconclusive", 5),
        (0, {"evictions_per_s": 5.0}, {"evictions_per_s": 4.9}, "inconclusive", 5),
        (0, {"evictions_per_s": 5.0, "match": 1}, {"evictions_per_s": 5.0}, "pass", 0),
        (1, {"host full": 1}, {}, "violation", 3),
    ],
)
def test_a_verdict_has_three_values(
    violations: int,
    required: dict[str, float],
    measured: dict[str, float],
    verdict: str,
    exit_code: int,
) -> None:
    marks = Marks()
    marks.add(run_marks(*ANCHOR, {"revived": 1}))
    found = certify(marks, violations=violations, required=required, measured=measured)
    assert (found.verdict, found.exit_code) == (verdict, exit_code)


def test_nothing_run_is_inconclusive_and_what_is_missing_is_listed() -> None:
    assert certify(Marks(), violations=0, required={}).verdict == "inconclusive"
    certificate = certify(Marks(schedules=1), violations=0, required={"host full": 3})
    assert certificate.missing == (("host full", 0, 3),)
