"""Names of stored pages.

A name is a hash of the identity (whatever makes KV of one server unreadable to another: model,
shape, KV dtype, page size, ranks), the component, and the prefix fingerprint, which itself chains
the namespace and every page before. So a page of another model or another prefix is simply not
there. The fingerprint has 64 bits: two prefixes share one with a chance of 2^-64.
"""

from functools import lru_cache
from hashlib import blake2b

from cache.storage.contract import KEY_BYTES


def identity_of(**facts: object) -> bytes:
    """The identity of a server from what it is; equal for equal facts, whatever their order."""
    text = "\n".join(f"{name}={facts[name]!r}" for name in sorted(facts))
    return blake2b(text.encode(), digest_size=KEY_BYTES, person=b"kvt-identity").digest()


def identity_of_rank(identity: bytes, rank: int, ranks: int) -> bytes:
    """Of one tensor-parallel rank of a server: each keeps its own part of every page. A server of
    one rank is its own only one."""
    return identity if ranks == 1 else identity_of(server=identity, rank=rank, ranks=ranks)


def page_key(identity: bytes, part: str, print_: int) -> bytes:
    """The name of one page's `part` (a component, or a companion of one)."""
    begun = _begun(identity, part).copy()
    begun.update(print_.to_bytes(8, "little"))
    return begun.digest()


@lru_cache(maxsize=256)
def _begun(identity: bytes, part: str) -> blake2b:
    """What the names of all pages of a part have in common: hashing that again for each of them
    takes longer than the rest."""
    assert len(identity) == KEY_BYTES
    return blake2b(part.encode() + b"\0", digest_size=KEY_BYTES, key=identity)
