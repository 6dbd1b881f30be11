"""What a page's bytes are in storage. Here: its fingerprint, bound to its component.

Slots hold fingerprints, so that is what travels; the component is mixed in because the same page of
another component has other bytes.
"""

from cache.config import Component

_COMPONENT_SALT = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def pack(component: Component, print_: int) -> bytes:
    return (print_ ^ _salt(component)).to_bytes(8, "little")


def unpack(component: Component, payload: bytes | memoryview) -> int:
    return int.from_bytes(payload, "little") ^ _salt(component)


def _salt(component: Component) -> int:
    return component * _COMPONENT_SALT & _MASK
