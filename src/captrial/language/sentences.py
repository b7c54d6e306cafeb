"""The sentences of a text, and captions cut to their first sentence or their first words.

Captioners based on language models write paragraphs where references are one sentence. `first_sentence` finds where
the first sentence ends; abbreviations are those that the tokeniser knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from captrial.language.tokenizer.grammar import CLOSING, NUMBERED, OPENERS, STOPPED

_END = re.compile(r"([.!?…]+)([\"'”’)\]]*)\s+|\s*\n\s*")
_LAST_WORD = re.compile(r"([^\W_]+(?:\.[^\W_]+)*)$")
_OPENER = re.compile(rf"(?:{OPENERS})\b")
_CLOSING = re.compile(CLOSING)
_NUMBERED = re.compile(NUMBERED)
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])*")  # F, U.S, p.m
_NEVER_LAST = frozenset(["mr", "mrs", "ms", "dr", "prof", "messrs", "mlle", "mme", "vs", "cf", "mt", "e.g", "i.e"])
_STREETS = frozenset(["st", "ave", "dept", "ft"])  # before a name, but also at the end of one: "Main St."


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, its full stop and closing quotes included.

    A line break ends a sentence. A full stop after an abbreviation, an initial or a number in front does not, unless
    what follows can only be the beginning of another sentence.

    >>> first_sentence("A dog by St. Paul's. It sleeps.")
    "A dog by St. Paul's."
    >>> first_sentence("A dog vs. a cat. Who wins?"), first_sentence("A man watching TV. He sits.")
    ('A dog vs. a cat.', 'A man watching TV.')
    """
    text = text.strip()
    return next((text[start:end] for start, end in sentence_spans(text)), text)


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the sentences of a text stand, `[start, end)` in characters, without the blanks around them.

    >>> list(sentence_spans("A dog runs.  It is brown."))
    [(0, 11), (13, 25)]
    """
    start = len(text) - len(text.lstrip())
    for end in _END.finditer(text, start):
        before, rest = text[start : end.start()], text[end.end() :]
        head = text[start : end.end()].rstrip()
        if not rest.strip():
            break
        if _ends_sentence(before, end[1], end[2], rest) or ("\n" in end.group() and _has_letters(head)):
            yield start, start + len(head)
            start = end.end()
    if text[start:].strip():
        yield start, len(text.rstrip())


def first_words(text: str, count: int) -> str:
    """Return the first `count` words of a text, joined by single spaces.

    >>> first_words("A dog  runs fast.", 3)
    'A dog runs'
    """
    return " ".join(text.split()[:count])


def _ends_sentence(before: str, mark: str | None, closers: str, rest: str) -> bool:
    """Whether a sentence ends at `mark`, which is between `before` and `rest`."""
    if not mark or not _has_letters(before):  # "1. A dog runs." is a list of one
        return False
    continues = rest[:1].islower()
    if closers and continues:  # a sign that says "Stop!" in red
        return False
    if mark != ".":
        return not (continues and mark[0] in ".…" and len(mark) + mark.count("…") > 1)  # a dog ... and a cat
    word = _LAST_WORD.search(before)
    return word is None or _may_be_last(word[1], rest)


def _may_be_last(word: str, rest: str) -> bool:
    """Whether a full stop after `word` ends a sentence that `rest` follows."""
    lower = word.lower()
    if lower in _NEVER_LAST:
        return False
    if _NUMBERED.fullmatch(word):
        return not rest[:1].isdigit()
    if _INITIALS.fullmatch(word) or lower in _STREETS:
        return bool(_OPENER.match(rest))
    if _CLOSING.fullmatch(word):
        return not rest[:1].islower()
    return lower not in STOPPED or not word[0].isupper() or bool(_OPENER.match(rest))


def _has_letters(text: str) -> bool:
    return any(character.isalpha() for character in text)
