"""Texts taken apart into propositions: what each sentence says, piece by piece, with the words it came from.

The propositions of a sentence are the tuples of the SPICE parser, as short phrases: an object (`wall`), an object with
an attribute (`brick wall`), two objects in a relation (`man ride horse`). Every sentence is parsed by itself, so that a
paragraph is taken apart as well as a caption. What was parsed before comes from a cache on disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson

from captrial.language.sentences import sentence_spans
from captrial.language.text_cache import TextCache
from captrial.language.token_spans import words_of_tokens
from captrial.language.tokenizer import tokenize_all
from captrial.metrics.spice.parser import parse
from captrial.metrics.spice.spice import located_tuples, version
from captrial.metrics.spice.tuple_patterns import SceneTuple

_WORD = re.compile(r"\S+")
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Proposition:
    """One thing that a text says, and the characters `[start, end)` of each word that says it, in order."""

    text: str
    words: tuple[Span, ...]


def propositions(texts: Sequence[str]) -> list[list[Proposition]]:
    """The distinct propositions of each text, in order; of equal ones the first.

    >>> [item.text for item in propositions(["A man rides a brown horse."])[0]]  # doctest: +SKIP
    ['man ride horse', 'brown horse', 'man', 'horse']
    """
    cache = TextCache(f"propositions-{version()}", "taking captions apart")
    return [_read(line) for line in cache.complete(texts, _lines)]


def phrase(item: SceneTuple) -> str:
    """A tuple as words.

    >>> phrase(("wall",)), phrase(("wall", "brick")), phrase(("man", "horse", "ride"))
    ('wall', 'brick wall', 'man ride horse')
    """
    if len(item) == 3:
        return f"{item[0]} {item[2].strip()} {item[1]}"
    return " ".join(reversed(item))


def _lines(texts: list[str]) -> Iterator[str]:
    sentences = [[_words(text, span) for span in sentence_spans(text)] for text in texts]
    flat = [
        [text[start:end] for start, end in words] for text, of in zip(texts, sentences, strict=True) for words in of
    ]
    parsed = zip(flat, parse(tokenize_all([" ".join(words) for words in flat])), strict=True)
    for of_text in sentences:
        found: dict[str, list[Span]] = {}
        for places in of_text:
            words, parses = next(parsed)
            word_of = words_of_tokens(words)
            for item, tokens in located_tuples(parses):
                said = sorted({word_of[token] for token in tokens if token < len(word_of)})
                found.setdefault(phrase(item), [places[word] for word in said])
        yield orjson.dumps(list(found.items())).decode()


def _words(text: str, span: Span) -> list[Span]:
    return [match.span() for match in _WORD.finditer(text, *span)]


def _read(line: str) -> list[Proposition]:
    return [Proposition(text, tuple((start, end) for start, end in words)) for text, words in orjson.loads(line)]
