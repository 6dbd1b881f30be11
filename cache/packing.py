"""What a page's bytes are in storage. Here: its fingerprint, bound to its component and its rank.

Slots hold fingerprints, so that is what travels; the component and the share of the rank are mixed
in because the same page of another component, or another rank's share of it, has other bytes.
"""

from cache.config import Component

_COMPONENT_SALT = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def pack(component: Component, print_: int, share: int) -> bytes:
    return (print_ ^ _salt(component) ^ share).to_bytes(8, "little")


def unpack(component: Component, payload: bytes | memoryview, share: int) -> int:
    return int.from_bytes(payload, "little") ^ _salt(component) ^ share


def share_of(identity: bytes) -> int:
    """Which part of a page the rank of an identity has."""
    return int.from_bytes(identity[:8], "little")


def _salt(component: Component) -> int:
    return component * _COMPONENT_SALT & _MASK
