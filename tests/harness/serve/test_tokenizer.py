"""Text survives the way through tokens, and answers survive the way through text."""

from hypothesis import given
from hypothesis import strategies as st

from harness.serve.tokenizer import FIRST_WORD, text_of, tokens_of

VOCAB = 1000
words = st.integers(FIRST_WORD, VOCAB - 1)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])) | st.from_regex(r"( t\d+)*"))
def test_every_text_comes_back(text):
    tokens = tokens_of(text, VOCAB)
    assert all(0 <= token < VOCAB for token in tokens)
    assert text_of(tokens) == text


@given(st.lists(words))
def test_an_answer_is_the_same_tokens_when_it_comes_back(answer):
    assert tokens_of(text_of(answer), VOCAB) == answer


@given(st.lists(words, min_size=1), st.text(alphabet="abc \n<|>", max_size=9))
def test_an_answer_between_texts_is_the_same_tokens(answer, text):
    tokens = tokens_of(f"{text}\n{text_of(answer)}\n{text}", VOCAB)
    around = len(text) + 1
    assert tokens[around:-around] == answer


def test_words_beyond_the_vocabulary_and_odd_numbers_are_bytes():
    for text in (" t1000", " t255", " t0300", " t3000000000000", "t300", " t30x"):
        assert tokens_of(text, VOCAB) == list(text.encode())
    assert tokens_of(" t300 t301", VOCAB) == [300, 301]


def test_bytes_that_are_no_text_are_shown_as_such():
    assert text_of([0xFF, 300]) == "\ufffd t300"
