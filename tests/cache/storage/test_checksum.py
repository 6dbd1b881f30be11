"""The sum over a page: equal everywhere, different after damage."""

from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from cache.storage.checksum import Checksum

WEIGHTS = [int(weight) for weight in Checksum()._weights[:32]]
PAGE = bytes(range(1, 256)) * 33


def slowly(data: bytes) -> int:
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
    return sum(w * x for w, x in zip(WEIGHTS, words, strict=False)) % 2**64


@given(data=st.binary(max_size=200))
def test_it_is_the_sum_of_weighted_words(data):
    assert Checksum().of(data) == slowly(data)
    assert Checksum().of(memoryview(data)) == slowly(data)


def test_weights_are_odd_and_all_different():
    weights = [int(weight) for weight in Checksum()._weights]
    assert all(weight % 2 for weight in weights)
    assert len(set(weights)) == len(weights)


def test_it_does_not_depend_on_what_was_summed_before():
    fresh, used = Checksum(), Checksum()
    used.of(bytes(1 << 20))
    for size in (0, 7, 8, 8184, 8192, 8193, 100_000):
        data = (PAGE * 20)[:size]
        assert fresh.of(data) == used.of(data)


@given(at=st.integers(0, len(PAGE) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_always_seen(at, bit):
    damaged = bytearray(PAGE)
    damaged[at] ^= 1 << bit
    assert Checksum().of(bytes(damaged)) != Checksum().of(PAGE)


@given(start=st.integers(0, len(PAGE) - 1), length=st.integers(1, len(PAGE)))
def test_a_zeroed_stretch_is_seen(start, length):
    stop = min(len(PAGE), start + length)
    damaged = PAGE[:start] + bytes(stop - start) + PAGE[stop:]
    assert Checksum().of(damaged) != Checksum().of(PAGE)


def test_swapped_words_are_seen():
    damaged = PAGE[8:16] + PAGE[:8] + PAGE[16:]
    assert Checksum().of(damaged) != Checksum().of(PAGE)


def test_noise_has_its_own_sum():
    seen = {Checksum().of(blake2b(bytes([n % 256, n // 256])).digest()) for n in range(1000)}
    assert len(seen) == 1000
