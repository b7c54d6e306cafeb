"""Token spans of phrases: from a data set's own words to the tokens of `captrial.language.tokenizer`.

A data set counts phrases in its own words (`extra["tokens"]`: blanks between them, punctuation kept); captioners and
metrics count in our tokens. `realign` converts phrases from the one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from captrial.language.tokenizer import tokenize, tokenize_all
from captrial.records import Phrase, Sample


def realign(words: Sequence[str], phrases: Sequence[Phrase]) -> tuple[tuple[str, ...], tuple[Phrase, ...]]:
    """Our tokens of a caption given by its words, and its phrases counted in them.

    A phrase of which no word is left (it was punctuation alone) is dropped; texts, regions and entities stay.

    >>> tokens, phrases = realign(["A", "dog", ",", "my", "friend"], [Phrase("my friend", 3, 5)])
    >>> tokens, phrases[0].start, phrases[0].end
    (('a', 'dog', 'my', 'friend'), 2, 4)
    """
    tokens = tokenize(" ".join(words))
    first = _first_tokens(words, tokens)
    moved = (replace(phrase, start=int(first[phrase.start]), end=int(first[phrase.end])) for phrase in phrases)
    return tuple(tokens), tuple(phrase for phrase in moved if phrase.start < phrase.end)


def aligned_phrases(sample: Sample) -> tuple[tuple[Phrase, ...], ...]:
    """The phrases of every caption of a sample, counted in our tokens; empty where a caption has none."""
    words = sample.extra.get("tokens")
    given = words if isinstance(words, tuple) else [text.split() for text in sample.captions]
    return tuple(
        realign(tokens, phrases)[1] if phrases else () for tokens, phrases in zip_longest(given, sample.phrases)
    )


def words_of_tokens(words: Sequence[str]) -> list[int]:
    """For each of our tokens of a caption given by its words, the index of the word it comes from.

    >>> words_of_tokens(["the", "man's", "dog", ",", "asleep", "."])
    [0, 1, 1, 2, 4]
    """
    tokens = tokenize(" ".join(words))
    first = _first_tokens(words, tokens)
    places = np.searchsorted(first, np.arange(len(tokens)), "right") - 1
    return [int(place) for place in places.clip(0, max(len(words) - 1, 0))]


def _first_tokens(words: Sequence[str], tokens: list[str]) -> NDArray[np.int64]:
    """For each word, and for the end, the index of the first token that comes from it or after it (words + 1,)."""
    pieces = [piece.split(" ") if piece else [] for piece in tokenize_all(words)]  # a token may hold a hard blank
    first = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])]).astype(np.int64)
    alone = [token for piece in pieces for token in piece]
    if alone == tokens:
        return first
    # The tokeniser read some word otherwise in its context ("etc ." and "etc."): align the two by what they share.
    place = np.zeros(len(alone) + 1, np.int64)
    for _, start, end, other, other_end in SequenceMatcher(None, alone, tokens, autojunk=False).get_opcodes():
        place[start:end] = np.minimum(other + np.arange(end - start), other_end)
        place[end:] = other_end
    return np.asarray(place[first])
