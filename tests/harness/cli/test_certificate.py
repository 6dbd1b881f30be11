"""The certificate of a hunt: gaps first, then what was reached, for people and for files."""

from harness.cli.certificate import evidence, screen
from harness.explore.kernel import Point
from harness.explore.marks import Marks, run_marks
from harness.hunt.screen import text_of
from harness.hunt.transitions import POSSIBLE
from harness.targets.choose import REFERENCE

TREE = ("tree",)
REACHED = str(POSSIBLE[3])


def seen() -> Marks:
    """A and B took turns at one tree: a b a, never b twice in a row by different tasks."""
    points = [Point("a", TREE), Point("b", TREE), Point("a", TREE)]
    marks = Marks()
    marks.add(run_marks(["A", "B", "A"], points, {"prefix_hit": 2}, (REACHED,)))
    return marks


def test_what_was_never_reached_is_named() -> None:
    found = evidence(seen(), REFERENCE)
    gaps = found["never_reached"]
    assert "prefix_hit" not in gaps["marks"]
    assert "demotion" in gaps["marks"]
    assert REACHED not in gaps["transitions"]
    assert len(gaps["transitions"]) == len(POSSIBLE) - 1
    assert gaps["pairs"] == ["a -> a", "b -> b"]
    assert gaps["triples"] == ["a -> a -> a"]
    assert found["pairs"] == {"seen": 2, "never_seen": 2}
    assert found["triples"] == {"seen": 1, "never_seen": 1}
    assert found["unsound_transitions"] == []


def test_a_transition_of_no_sound_cache_is_told() -> None:
    marks = seen()
    marks.transitions["FULL device ready > absent, host ready held"] += 1
    wrong = evidence(marks, REFERENCE)["unsound_transitions"]
    assert wrong == ["FULL device ready > absent, host ready held"]
    assert f"not of a sound cache: {wrong[0]}" in text_of(screen(marks, REFERENCE))


def test_the_screen_begins_with_the_gaps_and_lists_what_is_missing_first() -> None:
    text = text_of(screen(seen(), REFERENCE), width=4000)
    lines = text.splitlines()
    assert lines[0].startswith("never reached: marks: chunked_prefill")
    assert lines[1].startswith("  transitions: ")
    assert lines[2].startswith("  pairs: 2 of 4 that could be, such as a -> a")
    marks = [line.split()[0] for line in lines if line.split()[0] in evidence_marks()]
    assert marks[-1] == "prefix_hit"


def evidence_marks() -> set[str]:
    return {*evidence(Marks(), REFERENCE)["never_reached"]["marks"]}
