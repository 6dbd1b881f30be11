"""Spans name the same tokens however they are cut, and different streams do not meet."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.request import Request
from workloads.tokens import Span, numbered_seeds, stream_seed, synthesize

MASK = (1 << 64) - 1
seeds = st.integers(0, MASK)


def splitmix64(seed: int, index: int) -> int:
    """The published generator's output number `index`, in plain integers."""
    word = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def test_the_reference_generator_gives_the_published_first_output():
    assert splitmix64(0, 0) == 0xE220A8397B1DCDAF


@given(
    st.lists(st.builds(Span, seeds, st.integers(0, 1 << 40), st.integers(0, 40)), max_size=5),
    st.integers(2, 1 << 31),
)
def test_tokens_are_the_upper_half_of_splitmix64_scaled_to_the_vocabulary(spans, vocab_size):
    expected = [
        (splitmix64(span.seed, span.start + step) >> 32) * vocab_size >> 32
        for span in spans
        for step in range(span.length)
    ]
    made = synthesize(spans, vocab_size)
    assert made.dtype == np.int32
    assert made.tolist() == expected


@given(seeds, st.integers(0, 1000), st.lists(st.integers(0, 30), min_size=1, max_size=6))
def test_a_run_is_the_same_however_it_is_cut(seed, start, lengths):
    whole = synthesize([Span(seed, start, sum(lengths))])
    parts = []
    for length in lengths:
        parts.append(Span(seed, start, length))
        start += length
    assert synthesize(parts).tobytes() == whole.tobytes()


def test_no_spans_are_no_tokens():
    assert synthesize([]).shape == (0,)
    assert synthesize([Span(1, 0, 0)]).shape == (0,)


def test_tokens_of_different_streams_meet_only_by_chance():
    # Each of 65,536 places meets with probability 1/32,000: 2.05 expected. More than 15 of a
    # Poisson variable with that mean has a probability below 1e-8.
    ours = synthesize([Span(stream_seed("a"), 0, 1 << 16)])
    theirs = synthesize([Span(stream_seed("b"), 0, 1 << 16)])
    assert np.count_nonzero(ours == theirs) <= 15


def test_tokens_are_spread_evenly_over_the_vocabulary():
    # 16 cells, 2**16 tokens: each count is binomial with mean 4096, deviation 62; 6 deviations.
    counts = np.bincount(synthesize([Span(7, 0, 1 << 16)], 16), minlength=16)
    assert np.all(np.abs(counts - 4096) < 6 * 62)


@pytest.mark.parametrize("vocab_size", [0, 1, (1 << 31) + 1])
def test_a_vocabulary_that_cannot_be_is_refused(vocab_size):
    with pytest.raises(AssertionError, match="vocab_size"):
        synthesize([Span(0, 0, 1)], vocab_size)


def test_stream_seeds_tell_their_parts_apart():
    named = [(1, "a"), ("1", "a"), ("1a",), (1,), ("1",), ("a", 1), ("", "1a"), (-1,), ()]
    assert len({stream_seed(*parts) for parts in named}) == len(named)


def test_stream_seeds_never_change():
    """Recorded digests and tapes depend on these."""
    assert stream_seed("mooncake") == 0x0266A97297133EA8
    assert stream_seed(42, "chat", 7) == 0x503B7A523E6695E1


@given(seeds, st.lists(seeds, max_size=20, unique=True))
def test_numbered_seeds_are_all_different_and_depend_on_the_number_alone(base, numbers):
    made = numbered_seeds(base, numbers)
    assert len(set(made)) == len(numbers)
    assert made == [numbered_seeds(base, [number])[0] for number in numbers]


def test_a_request_makes_its_tokens_from_its_spans():
    prompt, output = (Span(1, 0, 5), Span(2, 3, 4)), (Span(3, 0, 2),)
    request = Request("r", "s", 0, prompt, output, 0.0)
    assert (request.prompt_len, request.output_len) == (9, 2)
    assert request.prompt_tokens().tolist() == synthesize(prompt).tolist()
    assert request.output_tokens(100).tolist() == synthesize(output, 100).tolist()
