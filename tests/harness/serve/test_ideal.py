"""The ideal counts whole pages that were seen before, and its memory is bounded."""

from cache.keys import Key
from harness.serve.ideal import Ideal


def _key(*tokens: int) -> Key:
    return Key(b"".join(token.to_bytes(4, "little") for token in tokens), 2)


def test_a_prompt_hits_whole_pages_that_were_seen_but_never_its_last_token():
    ideal = Ideal()
    assert ideal.hit_tokens(_key(1, 2, 3, 4)) == 0
    ideal.add(_key(1, 2, 3, 4))
    assert ideal.hit_tokens(_key(1, 2, 3, 4)) == 2
    assert ideal.hit_tokens(_key(1, 2, 3, 4, 5)) == 4
    assert ideal.hit_tokens(_key(1, 2, 9, 4, 5)) == 2
    assert ideal.hit_tokens(_key(7, 2, 3, 4, 5)) == 0


def test_it_forgets_nothing_and_learns_nothing_once_it_is_full():
    ideal = Ideal(most_pages=2)
    for first in range(0, 40, 4):
        ideal.add(_key(first, first + 1, first + 2, first + 3))
    assert ideal.hit_tokens(_key(0, 1, 2, 3, 4)) == 4
    assert ideal.hit_tokens(_key(8, 9, 10, 11, 12)) == 0
