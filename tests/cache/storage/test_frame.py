"""Whatever a page's bytes have become, only the page itself unseals."""

from hypothesis import given
from hypothesis import strategies as st

from cache.storage.contract import ROOT, Page
from cache.storage.frame import HEADER_BYTES, read_header, seal, unseal
from cache.storage.naming import identity_of, page_key
from tests.cache.storage.contract_suite import IDENTITY, key_of, page

KEY = key_of(1)
WHOLE = seal(IDENTITY, page(1)) + page(1).payload


def test_a_whole_page_unseals_without_a_copy():
    payload = unseal(IDENTITY, KEY, WHOLE)
    assert payload == page(1).payload
    assert payload.obj is WHOLE


@given(at=st.integers(0, len(WHOLE) - 1), bit=st.integers(0, 7))
def test_no_single_bit_may_differ(at, bit):
    damaged = bytearray(WHOLE)
    damaged[at] ^= 1 << bit
    assert unseal(IDENTITY, KEY, bytes(damaged)) is None


@given(length=st.integers(0, len(WHOLE) - 1))
def test_no_beginning_of_a_page_is_a_page(length):
    assert unseal(IDENTITY, KEY, WHOLE[:length]) is None
    assert unseal(IDENTITY, KEY, WHOLE[:length] + bytes(len(WHOLE) - length)) is None


def test_nothing_may_follow_a_page():
    assert unseal(IDENTITY, KEY, WHOLE + b"\0") is None


def test_a_page_under_another_name_is_not_taken():
    assert unseal(IDENTITY, key_of(2), WHOLE) is None


def test_a_page_of_another_server_is_not_taken():
    foreign = identity_of(model="other", page_size=64)
    assert unseal(foreign, KEY, WHOLE) is None
    assert read_header(foreign, WHOLE) is None


def test_a_header_tells_the_head_and_the_whole_size():
    header = read_header(IDENTITY, WHOLE[:HEADER_BYTES])
    assert header is not None
    assert (header.key, header.head, header.total_bytes) == (KEY, ROOT, len(WHOLE))


def test_whatever_makes_kv_unreadable_makes_another_name():
    facts = {"model": "m", "kv_dtype": "bf16", "page_size": 64, "tp": 2, "rank": 0}
    identities = {identity_of(**facts)}
    for name, other in (("model", "n"), ("kv_dtype", "fp8_e4m3"), ("page_size", 32), ("rank", 1)):
        identities.add(identity_of(**{**facts, name: other}))
    assert len(identities) == 5
    assert identity_of(**facts) == identity_of(**dict(reversed(facts.items())))
    names = {page_key(i, part, 7) for i in identities for part in ("full", "swa")}
    assert len(names) == 10
    assert page_key(IDENTITY, "full", 7) != page_key(IDENTITY, "full", 8)


def test_two_parts_of_one_page_are_told_apart_by_their_sealed_names():
    full, swa = (Page(page_key(IDENTITY, part, 7), ROOT, b"kv") for part in ("full", "swa"))
    assert unseal(IDENTITY, swa.key, seal(IDENTITY, full) + b"kv") is None
