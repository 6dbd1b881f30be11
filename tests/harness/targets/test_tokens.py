"""Tokens name their whole prefix."""

from harness.targets.sglang.tokens import ANSWER, Seed, grow


def test_two_sequences_share_tokens_exactly_as_far_as_they_share_their_prefix() -> None:
    prefix = grow([], Seed(1, 0), 5)
    one, other = grow(prefix, Seed(2, 0), 4), grow(prefix, Seed(2, 1), 4)
    assert one[:5] == other[:5] == prefix
    assert not set(one[5:]) & set(other[5:])


def test_the_same_symbol_behind_another_prefix_is_another_token() -> None:
    assert (
        grow(grow([], Seed(1, 0), 1), ANSWER, 1)[-1] != grow(grow([], Seed(1, 1), 1), ANSWER, 1)[-1]
    )


def test_tokens_are_positive_and_fit_what_releases_store() -> None:
    tokens = grow([], Seed(1, 1), 2_000)
    assert len(set(tokens)) == 2_000
    assert all(0 < token < 1 << 31 for token in tokens)
