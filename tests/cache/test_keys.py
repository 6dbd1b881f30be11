"""Keys: equal fingerprints mean equal prefixes, whoever computed them and in how many steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache import keys
from cache.keys import UNWRITTEN, common_pages, gather
from tests.cache.builders import a_key, tokens_of

PAGES = st.lists(st.integers(0, 2), max_size=6)
NAMESPACES = st.sampled_from(["", "lora", "lor"])


@given(PAGES, PAGES, NAMESPACES, NAMESPACES)
def test_fingerprints_are_equal_exactly_where_prefixes_are(one, other, here, there):
    first = a_key(one, 2, here, tail=0).prints()
    second = a_key(other, 2, there, tail=0).prints()
    for page, (a, b) in enumerate(zip(first, second, strict=False)):
        same = here == there and one[: page + 1] == other[: page + 1]
        assert (a == b) == same


def test_fingerprints_are_the_same_on_every_machine():
    # Recorded; another byte order, hash or chain would change what a stored run means.
    recorded = [0xC689D9B58383B63C, 0x8A0D6AF16C1E311B]
    assert a_key([7, 8], 4, "lora", tail=0).prints() == recorded


def test_a_fingerprint_that_hashes_to_zero_is_not_taken_for_an_unwritten_page(monkeypatch):
    class Zero:
        def digest(self) -> bytes:
            return bytes(8)

    monkeypatch.setattr(keys, "blake2b", lambda *args, **kwargs: Zero())
    assert UNWRITTEN not in a_key([1, 2], 2, tail=0).prints()


def test_a_key_that_grows_hashes_every_page_once(monkeypatch):
    hashed = []
    chain = keys.chain

    def counting(last: int, data: bytes, page_bytes: int) -> list[int]:
        hashed.append(len(data) // page_bytes)
        return chain(last, data, page_bytes)

    monkeypatch.setattr(keys, "chain", counting)
    key = a_key([1], 2, tail=0)
    for page in range(2, 6):
        key.prints()
        key = key.extended(tokens_of([page], 2))
    assert key.prints() == a_key([1, 2, 3, 4, 5], 2, tail=0).prints()
    assert hashed == [1, 1, 1, 1, 1, 5]


def test_two_keys_that_extend_one_key_keep_their_own_fingerprints():
    base = a_key([1], 2, tail=0)
    left, right = base.extended(tokens_of([2], 2)), base.extended(tokens_of([3], 2))
    assert left.prints() == a_key([1, 2], 2, tail=0).prints()
    assert right.prints() == a_key([1, 3], 2, tail=0).prints()
    assert base.prints() == a_key([1], 2, tail=0).prints()


def test_a_partly_filled_last_page_has_no_fingerprint_until_it_is_full():
    key = a_key([1, 2], 4, tail=3)
    assert key.pages == 2
    assert len(key.prints()) == 2
    assert len(key.extended(tokens_of([0], 1)).prints()) == 3


@given(PAGES, PAGES, st.integers(0, 4), st.integers(0, 10))
def test_common_pages_counts_what_a_loop_over_pages_counts(edge, below, skip, limit):
    data = tokens_of(list(range(90, 90 + skip)) + below, 2)
    offset, limit = skip * 8, min(len(data), (skip + limit) * 8)
    shared = 0
    for a, b in zip(edge, below[: (limit - offset) // 8], strict=False):
        if a != b:
            break
        shared += 1
    assert common_pages(tokens_of(edge, 2), data, offset, limit, 8) == shared


@pytest.mark.parametrize("slots", [[], [2], [2, 0], [1, 1, 2]])
def test_gathering_keeps_order_and_repeats_for_any_number_of_slots(slots):
    values = [10, 11, 12]
    assert gather(values, slots) == [values[slot] for slot in slots]
