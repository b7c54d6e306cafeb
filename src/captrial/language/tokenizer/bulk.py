"""The tokeniser: plain captions in bulk, the others word by word through the lexer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from captrial.language.tokenizer.alphabet import shadow
from captrial.language.tokenizer.lexer import lex
from captrial.language.tokenizer.plain import tokenize_plain

_BLOCK = 4096  # captions: their bytes, and what is computed from them, stay in the processor's cache

# Where the grammar looks across a blank: numbers in groups, "no. 5", ". . .", mixed blanks, and a full stop before a
# capital unless a plain word ends there. Tags do it as well.
_SPANNING = re.compile(
    r" (?:(?<=[\d)] )\d|(?<=\. )[\d.]|[\t\xa0\u2000-\u200a\u3000]|(?![A-Za-z]{2,}\. )[^ ]*[A-Za-z]\.\s+[A-Z])"
)
# Where it looks across the end of a line.
_PEEKING = re.compile(r"(?:[A-Za-z]|(?i:arts?|ca|figs?|nos?|op|pp|prop))\.\s*$")

_BREAK = re.compile(r"[\n\v\f\r\u2028\u2029]")  # a caption is one line, whatever it holds

_lex_chunk = lru_cache(maxsize=1 << 17)(lex)


def tokenize(text: str) -> list[str]:
    """Penn Treebank tokens of one caption: lower-case, without punctuation, as the COCO toolkit has them.

    >>> tokenize("A man can't ride the dog's bike, can he?")
    ['a', 'man', 'ca', "n't", 'ride', 'the', 'dog', "'s", 'bike', 'can', 'he']
    """
    return tokens.split(" ") if (tokens := _tokenize_line(text)) else []


def tokenize_all(texts: Sequence[str], *, as_file: bool = False) -> list[str]:
    """The tokens of many captions, joined by blanks; one string a caption, in order.

    `as_file` lets the tokeniser look past the end of a caption at the next one, as the COCO toolkit does with its file
    of lines: `Wii U.` loses its full stop before a caption that begins with `A`. Otherwise a caption's tokens never
    depend on its neighbours.

    >>> tokenize_all(["Two dogs, one cat.", "", "It's a T-shirt!"])
    ['two dogs one cat', '', "it 's a t-shirt"]
    """
    lines = [text.replace("\n", " ") if "\n" in text else text for text in texts]
    tokens: list[str] = []
    for start in range(0, len(lines), _BLOCK):
        block, others = tokenize_plain(lines[start : start + _BLOCK])
        tokens += block
        for line in (start + other for other in others):
            tokens[line] = _tokenize_in_file(lines, line) if as_file else _tokenize_line(lines[line])
    return tokens


def forget() -> None:
    """Empty the memory of tokenised pieces, as in a new process."""
    _lex_chunk.cache_clear()


def _tokenize_line(text: str) -> str:
    line = _BREAK.sub(" ", text)
    if "<" in line or _SPANNING.search(f" {line}"):
        return lex(line).rstrip()
    return " ".join(filter(None, map(_lex_chunk, line.split(" ")))).rstrip()


def _tokenize_in_file(lines: Sequence[str], line: int) -> str:
    if line == len(lines) - 1 or _PEEKING.search(lines[line]):
        return lex(_BREAK.sub(" ", lines[line]), _following(lines, line)).rstrip()
    return _tokenize_line(lines[line])


def _following(lines: Sequence[str], line: int) -> str:
    """The shadow of what stands after a line, as far as the grammar can look: through the next line with a word."""
    following = ""
    for text in map(lines.__getitem__, range(line + 1, len(lines))):  # no copy of all that follows
        following += f"\n{shadow(text)}"
        if text.strip():
            return f"{following}\n"
    return following
