"""How much of each prompt a cache without limits would have hit, in bounded memory."""

from cache.keys import TOKEN_BYTES, Key

MOST_PAGES = 1 << 20  # about 70 MB of fingerprints


class Ideal:
    """Remembers the pages of prompts and answers by fingerprint, the first `MOST_PAGES` of them:
    from then on it may know less than a cache without limits."""

    def __init__(self, most_pages: int = MOST_PAGES) -> None:
        self._most_pages = most_pages
        self._seen: set[int] = set()

    def hit_tokens(self, key: Key) -> int:
        """Of a prompt that is coming in: whole pages, at most n - 1 of n tokens."""
        page_size = key.page_bytes // TOKEN_BYTES
        pages = (key.tokens - 1) // page_size
        known = 0
        for print_ in key.prints(pages)[:pages]:
            if print_ not in self._seen:
                break
            known += 1
        return known * page_size

    def add(self, key: Key) -> None:
        """A prompt has come in, or an answer is complete."""
        if len(self._seen) < self._most_pages:
            self._seen.update(key.prints())
