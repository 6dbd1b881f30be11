"""What an object's bytes are in storage: fingerprints, bound to their strand and their rank, and
behind them the bodies of what they name.

    word 8 for each part | body of the first part | body of the second ...

The strand, the place within it and the share of the rank are mixed into a word because the same
page of another component, its companion, or another rank's share of it, has other bytes. A body
has none where slots hold fingerprints alone.
"""

from collections.abc import Sequence

_SALT = 0x9E3779B97F4A7C15
_PLACES = 64  # more than there are strands
_MASK = 2**64 - 1
WORD_BYTES = 8


def pack(
    strand: int, contents: Sequence[int], share: int, bodies: Sequence[memoryview] = ()
) -> bytes:
    """`contents` are those of a page and of the companions that travel with it."""
    words = (
        ((content & _MASK) ^ _salt(strand, place) ^ share).to_bytes(WORD_BYTES, "little")
        for place, content in enumerate(contents)
    )
    return b"".join((*words, *bodies))


def unpack(strand: int, payload: bytes | memoryview, share: int, parts: int) -> tuple[int, ...]:
    """The fingerprints of so many parts."""
    return tuple(
        int.from_bytes(payload[place * WORD_BYTES : (place + 1) * WORD_BYTES], "little")
        ^ _salt(strand, place)
        ^ share
        for place in range(parts)
    )


def bodies_of(payload: memoryview, sizes: Sequence[int]) -> tuple[memoryview, ...]:
    """The bodies, of `sizes` bytes each. The last is all that is left, however long: an object
    that is another's ends elsewhere."""
    found, at = list[memoryview](), len(sizes) * WORD_BYTES
    for size in sizes[:-1]:
        found.append(payload[at : at + size])
        at += size
    return (*found, payload[at:])


def share_of(identity: bytes) -> int:
    """Which part of a page the rank of an identity has."""
    return int.from_bytes(identity[:8], "little")


def _salt(strand: int, place: int) -> int:
    return (strand + _PLACES * place) * _SALT & _MASK
