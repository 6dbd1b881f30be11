"""What an object's bytes are in storage. Here: fingerprints, bound to their strand and their rank.

Slots hold fingerprints, so that is what travels; the strand, the place within it and the share of
the rank are mixed in because the same page of another component, its companion, or another rank's
share of it, has other bytes.
"""

from collections.abc import Sequence

_SALT = 0x9E3779B97F4A7C15
_PLACES = 64  # more than there are strands
_MASK = 2**64 - 1
_WORD = 8


def pack(strand: int, contents: Sequence[int], share: int) -> bytes:
    """`contents` are those of a page and of the companions that travel with it."""
    return b"".join(
        (content ^ _salt(strand, place) ^ share).to_bytes(_WORD, "little")
        for place, content in enumerate(contents)
    )


def unpack(strand: int, payload: bytes | memoryview, share: int) -> tuple[int, ...]:
    return tuple(
        int.from_bytes(payload[at : at + _WORD], "little") ^ _salt(strand, at // _WORD) ^ share
        for at in range(0, len(payload), _WORD)
    )


def share_of(identity: bytes) -> int:
    """Which part of a page the rank of an identity has."""
    return int.from_bytes(identity[:8], "little")


def _salt(strand: int, place: int) -> int:
    return (strand + _PLACES * place) * _SALT & _MASK
