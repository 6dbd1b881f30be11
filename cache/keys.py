"""Page keys and prefix fingerprints.

A key is the bytes of its int32 tokens, so comparing a tree edge is one memory compare. A page's
fingerprint chains the fingerprint of the page before it: equal fingerprints mean equal prefixes.
"""

from collections.abc import Sequence
from hashlib import blake2b
from operator import itemgetter

TOKEN_BYTES = 4
UNWRITTEN = 0  # no fingerprint is ever 0


class Key:
    """A token sequence from position 0, in a namespace (LoRA adapter, cache salt).

    `data` is little-endian int32. Fingerprints are computed when first asked for, page by page,
    and remembered; `extended` hands them on, so a growing request hashes every page once."""

    __slots__ = ("_prints", "data", "namespace", "page_bytes")

    def __init__(
        self, data: bytes, page_size: int, namespace: str = "", prints: list[int] | None = None
    ) -> None:
        assert len(data) % TOKEN_BYTES == 0
        self.data = data
        self.page_bytes = page_size * TOKEN_BYTES
        self.namespace = namespace
        self._prints: list[int] = [] if prints is None else prints

    @property
    def tokens(self) -> int:
        return len(self.data) // TOKEN_BYTES

    @property
    def pages(self) -> int:
        """Whole pages."""
        return len(self.data) // self.page_bytes

    def prints(self, pages: int | None = None) -> list[int]:
        """Fingerprints of at least the first `pages` whole pages (all of them by default)."""
        wanted = self.pages if pages is None else pages
        assert wanted <= self.pages
        known = self._prints
        if len(known) < wanted:
            last = known[-1] if known else namespace_seed(self.namespace)
            start = len(known) * self.page_bytes
            known += chain(last, self.data[start : wanted * self.page_bytes], self.page_bytes)
        return known

    def extended(self, more: bytes) -> "Key":
        """This key with `more` tokens behind it, and what has been hashed of it."""
        page_size = self.page_bytes // TOKEN_BYTES
        return Key(self.data + more, page_size, self.namespace, self._prints[: self.pages])


def chain(last: int, data: bytes, page_bytes: int) -> list[int]:
    """Fingerprints of the whole pages of `data`, which follows a page with fingerprint `last`."""
    prints = []
    previous = last.to_bytes(8, "little")
    for start in range(0, len(data) - page_bytes + 1, page_bytes):
        previous = blake2b(data[start : start + page_bytes], digest_size=8, key=previous).digest()
        prints.append(int.from_bytes(previous, "little") or 1)
    return prints


def state_print(prints: Sequence[int], tokens: int, page_size: int) -> int:
    """The fingerprint of the recurrent state behind the first `tokens` tokens of a prefix whose
    page fingerprints are `prints`: that of its last page if it ends on one, else made of the last
    whole page's and of how far it goes beyond. UNWRITTEN before the first token."""
    pages, beyond = divmod(tokens, page_size)
    whole = prints[pages - 1] if pages else UNWRITTEN
    if not beyond:
        return whole
    data = beyond.to_bytes(8, "little")
    mixed = blake2b(data, digest_size=8, key=whole.to_bytes(8, "little")).digest()
    return int.from_bytes(mixed, "little") or 1


def namespace_seed(namespace: str) -> int:
    return int.from_bytes(blake2b(namespace.encode(), digest_size=8).digest(), "little")


def common_pages(edge: bytes, data: bytes, offset: int, limit: int, page_bytes: int) -> int:
    """Leading whole pages that `edge` shares with data[offset:limit]; bisects memory compares."""
    low, high = 0, min(len(edge), limit - offset) // page_bytes
    while low < high:
        middle = (low + high + 1) // 2
        start, stop = low * page_bytes, middle * page_bytes
        if edge[start:stop] == data[offset + start : offset + stop]:
            low = middle
        else:
            high = middle - 1
    return low


def pages_of(tokens: int, page_size: int) -> int:
    """Pages that hold `tokens` tokens, the last one perhaps partly."""
    return -(-tokens // page_size)


def gather(values: Sequence[int], slots: list[int]) -> list[int]:
    """values[slot] for every slot, without a Python-level loop."""
    if len(slots) < 2:  # for which an itemgetter gives no tuple
        return [values[slot] for slot in slots]
    return list(itemgetter(*slots)(values))
