"""What lies around a page's payload in storage, so that nothing wrong is ever taken for it.

    magic 8 | identity 16 | key 16 | head 16 | payload length 8 | payload sum 8 | header CRC 8

A page whose bytes are cut, zeroed, swapped or another server's does not unseal. Names are compared
in full; what damage to a payload may pass, `checksum.py` tells.
"""

from struct import Struct
from typing import NamedTuple
from zlib import crc32

from cache.storage.checksum import Checksum
from cache.storage.contract import Page

MAGIC = b"kvtpage1"
_FIELDS = Struct("<8s16s16s16sQQ")
_CHECK = Struct("<Q")  # so wide that a payload lies on a whole word
HEADER_BYTES = _FIELDS.size + _CHECK.size
_SUM = Checksum()


class Header(NamedTuple):
    key: bytes
    head: bytes
    payload_bytes: int
    payload_sum: int

    @property
    def total_bytes(self) -> int:
        return HEADER_BYTES + self.payload_bytes


def seal(identity: bytes, page: Page) -> bytes:
    """The header that goes before the page's payload."""
    payload = page.payload
    fields = _FIELDS.pack(MAGIC, identity, page.key, page.head, len(payload), _SUM.of(payload))
    return fields + _CHECK.pack(crc32(fields))


def read_header(identity: bytes, data: bytes | memoryview) -> Header | None:
    """The header that `data` starts with; None if it is damaged or another server's."""
    if len(data) < HEADER_BYTES:
        return None
    fields = bytes(data[: _FIELDS.size])
    if _CHECK.unpack_from(data, _FIELDS.size)[0] != crc32(fields):
        return None
    magic, whose, key, head, length, payload_sum = _FIELDS.unpack(fields)
    if magic != MAGIC or whose != identity:
        return None
    return Header(key, head, length, payload_sum)


def unseal(identity: bytes, key: bytes, data: bytes | memoryview) -> memoryview | None:
    """The payload, if `data` is exactly the page of that name; no copy is made."""
    header = read_header(identity, data)
    if header is None or header.key != key or header.total_bytes != len(data):
        return None
    payload = memoryview(data)[HEADER_BYTES:]
    return payload if _SUM.of(payload) == header.payload_sum else None
