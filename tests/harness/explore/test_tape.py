"""Tapes: run-length coding there and back, and what replays make of a tape that no longer fits."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.explore.tape import Choice, Divergence, LenientReplay, StrictReplay, Tape


@dataclass
class Fake:
    """A task as a replay sees it."""

    name: str
    steps: int = 0


draws = st.tuples(st.sampled_from("ab"), st.integers(0, 4)).map(lambda d: Choice(d[0], d[1], 5))


@given(st.lists(st.sampled_from(["P0", "R0", "R1"])), st.lists(draws))
def test_a_tape_survives_json(order: list[str], drawn: list[Choice]) -> None:
    tape = Tape.from_json(Tape(order, drawn).to_json())
    assert (tape.order, tape.draws) == (order, drawn)


def test_json_is_run_length_coded() -> None:
    tape = Tape(["P0", "P0", "R0"], [Choice("fail", 0, 2), Choice("fail", 0, 2)])
    assert tape.to_json() == {"order": [["P0", 2], ["R0", 1]], "draws": [["fail", 0, 2, 2]]}
    assert tape.switches == 1


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"order": [["P0"]], "draws": []},
        {"order": [["P0", 0]], "draws": []},
        {"order": [["P0", 1.5]], "draws": []},
        {"order": [], "draws": [["fail", 2, 2, 1]]},
        {"order": 3, "draws": []},
    ],
)
def test_what_is_no_tape_is_refused_in_one_line(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^not a tape: [^\n]*$"):
        Tape.from_json(data)


def test_lenient_replay_skips_what_cannot_be_done_and_then_takes_zero() -> None:
    a, b = Fake("A"), Fake("B")
    replay = LenientReplay(Tape(["gone", "B", "A"]))
    assert replay.pick([a, b], a) == 1
    b.steps = 1
    assert replay.pick([a, b], b) == 0
    assert replay.pick([b, a], b) == 0


def test_lenient_replay_skips_segments_that_ran_without_a_choice() -> None:
    a, b = Fake("A", steps=2), Fake("B")
    replay = LenientReplay(Tape(["A", "A", "B", "A"]))
    assert replay.pick([a, b], a) == 1


def test_lenient_draws_are_matched_by_label_and_fit_the_bound() -> None:
    replay = LenientReplay(Tape([], [Choice("x", 4, 5), Choice("y", 1, 2), Choice("x", 2, 5)]))
    assert replay.draw("y", 2) == 1
    assert replay.draw("x", 3) == 0
    assert replay.draw("x", 3) == 2
    assert replay.draw("x", 3) == 0


def test_strict_replay_refuses_another_draw() -> None:
    replay = StrictReplay(Tape([], [Choice("x", 1, 2)]))
    with pytest.raises(Divergence, match="expected draw x of 2, possible were draw y of 2"):
        replay.draw("y", 2)


def test_strict_replay_notices_a_run_that_is_too_short_or_too_long() -> None:
    replay = StrictReplay(Tape(["A", "B"]))
    replay.watch(Tape(["A"]))
    with pytest.raises(Divergence, match="at step 2: expected B, possible were none"):
        replay.finish()
    replay = StrictReplay(Tape(["A"]))
    replay.watch(Tape(["A", "C"]))
    with pytest.raises(Divergence, match="at step 2: expected the end, possible were C"):
        replay.finish()
    replay = StrictReplay(Tape([], [Choice("x", 1, 2)]))
    with pytest.raises(Divergence, match="expected draw x"):
        replay.finish()
