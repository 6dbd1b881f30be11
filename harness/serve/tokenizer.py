"""Text and tokens, without a vocabulary: a word of answers, or a byte.

Token `t` of 256 and more is written " t" and its number; every other byte of a text is one token.
So ordinary text takes a token a byte, about four times what a trained tokenizer takes, and an
answer that comes back in the next prompt is the very tokens that were generated. Invariant:
`text(tokens(s)) == s` for every text.
"""

import re

FIRST_WORD = 256
_WORD = re.compile(r" t([1-9][0-9]{2,9})(?![0-9])")


def tokens_of(text: str, vocab_size: int) -> list[int]:
    """The tokens of `text`, each below `vocab_size`, which is above 256."""
    assert vocab_size > FIRST_WORD
    found: list[int] = []
    done = 0
    for word in _WORD.finditer(text):
        token = int(word[1])
        if FIRST_WORD <= token < vocab_size:
            found += text[done : word.start()].encode("utf-8", "surrogatepass")
            found.append(token)
            done = word.end()
    found += text[done:].encode("utf-8", "surrogatepass")
    return found


def text_of(tokens: list[int]) -> str:
    """The text of `tokens`; bytes that are no UTF-8 are shown as U+FFFD."""
    parts: list[str] = []
    raw = bytearray()
    for token in tokens:
        if token < FIRST_WORD:
            raw.append(token)
            continue
        parts += (raw.decode("utf-8", "replace"), f" t{token}")
        raw.clear()
    return "".join([*parts, raw.decode("utf-8", "replace")])
