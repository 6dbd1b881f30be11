"""The trail of a run: a digest over who did what to which object, and what was drawn.

Two runs with the same digest took the same steps. Only text enters it, so it is the same on every
machine and under every hash seed.

Invariant: the digest depends on the order of entries alone, never on when they were folded in.
"""

from collections.abc import Iterable
from hashlib import blake2b

_FOLD_AT = 4096


class Trail:
    """Collects entries and folds them into 64 bits, in bulk and late, because few are ever read.

    Reading the digest closes the trail. A pickled trail is its digest.
    """

    __slots__ = ("_digest", "_hash", "_pending")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=8)
        self._pending: list[tuple[str, tuple[object, ...]]] = []
        self._digest = ""

    def add(self, who: str, what: tuple[object, ...]) -> None:
        """Note that ``who`` (a task, or a draw's label) did ``what``: a name and an object."""
        self._pending.append((who, what))
        if len(self._pending) >= _FOLD_AT:
            self._fold()

    def extend(self, entries: Iterable[tuple[str, tuple[object, ...]]]) -> None:
        """Note all of ``entries``, in order."""
        self._pending.extend(entries)

    def digest(self) -> str:
        """16 hexadecimal digits for everything added."""
        if not self._digest:
            self._fold()
            self._digest = self._hash.hexdigest()
        return self._digest

    def __getstate__(self) -> str:
        return self.digest()

    def __setstate__(self, digest: str) -> None:
        self.__init__()  # type: ignore[misc]  # a fresh trail that is closed already
        self._digest = digest

    def _fold(self) -> None:
        assert not self._digest, "the trail's digest was read already"
        text = "\n".join([f"{who}\t{what[0]}\t{what[1]}" for who, what in self._pending])
        assert " at 0x" not in text, "a point's object must not show its address"
        if text:
            self._hash.update(text.encode() + b"\n")
        self._pending.clear()
