"""From sub-word tokens to words, for any tokeniser: what each token adds to the decoded text says where it belongs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from captrial.captioners.explainable import WordSpan

UNFINISHED = "\ufffd"  # what decoders write for a part of a letter
_WORD = re.compile(r"\w+(?:['’.-]\w+)*|[^\w\s]")  # a word with inner apostrophes and hyphens, or one other sign


def word_spans(tokenizer: Any, tokens: Sequence[int]) -> list[WordSpan]:
    """The words of `tokens`; a token that touches two words belongs to the one it begins in.

    A token that is only the space before a word belongs to the word; special tokens belong to none.
    """
    text, starts, ends = _spans(tokenizer, tokens)
    words: list[WordSpan] = []
    token = 0
    for match in _WORD.finditer(text):
        while token < len(tokens) and ends[token] <= match.start():
            token += 1
        first = token
        while first > (words[-1].end if words else 0) and text[starts[first - 1] : ends[first - 1]].isspace():
            first -= 1
        while token < len(tokens) and _begins(text, starts[token], ends[token]) < match.end():
            token += 1
        if token > first:
            words.append(WordSpan(match.group(), first, token))
    return words


def _begins(text: str, start: int, end: int) -> int:
    """Where the visible part of `text[start:end]` begins."""
    return start + len(text[start:end]) - len(text[start:end].lstrip())


def _spans(tokenizer: Any, tokens: Sequence[int]) -> tuple[str, list[int], list[int]]:
    """The decoded text, and the part `[start, end)` of it that each token wrote.

    Prefixes are decoded one after another, because only the tokeniser knows what joins tokens: `##` of WordPiece,
    spaces inside byte-level tokens. Tokens that are parts of one letter have all of its span.
    """
    ids = list(tokens)
    whole = _decoded(tokenizer, ids)
    starts: list[int] = []
    ends: list[int] = []
    start = 0
    for length in range(1, len(ids) + 1):
        text = _decoded(tokenizer, ids[:length])
        if text.endswith(UNFINISHED) and length < len(ids):
            continue  # a letter of several bytes: its last token closes it
        end = _shared(text, whole)
        for _ in range(length - len(starts)):
            starts.append(start)
            ends.append(end)
        start = end
    return whole, starts, ends


def _shared(a: str, b: str) -> int:
    """The length of the common beginning."""
    return next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _decoded(tokenizer: Any, ids: list[int]) -> str:
    decoded: str = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False) if ids else ""
    return decoded
