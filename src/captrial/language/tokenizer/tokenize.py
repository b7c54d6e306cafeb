"""The tokeniser: plain captions in bulk, all others word by word by the grammar.

Nearly all captions are plain: ASCII words, commas, quotation marks, and full stops before blanks. Nothing in them needs
the grammar; they are tokenised by a few passes over the bytes of the joined text, which also find the captions that are
not plain. Those are lexed: at every place the rule of the grammar that reaches furthest makes the token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from string import ascii_letters, ascii_lowercase, ascii_uppercase

import numpy as np
from numpy.typing import NDArray

from captrial.language.tokenizer.characters import shadow
from captrial.language.tokenizer.grammar import STOPPED, rules_for, spell_sign

DROPPED = frozenset(("''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"))
"""Tokens the COCO toolkit takes out. It also lists brackets, in capitals, which lower-cased tokens never equal."""

# No rule can make more of these than a word.
_PLAIN_WORD = re.compile(r"(?!(?i:cannot|go[nt][nt]a|[gl][ei]mme|wanna))[A-Za-z]+(?=,?[ \n])")

NEXT_LINE = "\n\n"


def lex(text: str, following: str = NEXT_LINE) -> str:
    """The tokens of the text, lower-case, punctuation dropped, joined by blanks.

    `following` is the shadow of what the grammar may look at beyond the end; no token is taken from it.
    """
    length, shade, at = len(text), shadow(text) + following, 0
    tokens = []
    while at < length:
        end, spell = _next(shade, at)
        tokens.append(spell(text[at:end]))
        at = end
    return drop(" ".join(tokens).lower())


def _next(shade: str, at: int) -> tuple[int, Callable[[str], str]]:
    """The end of the token that begins here, and how to spell it."""
    if plain := _PLAIN_WORD.match(shade, at):
        return plain.end(), str
    reach, end = at, at + 1
    spell: Callable[[str], str] = spell_sign
    for pattern, candidate in rules_for(shade[at]):
        match = pattern.match(shade, at)
        if match and match.end() > reach:
            reach, end, spell = match.end(), match.end(1), candidate
    return end, spell


def drop(tokens: str) -> str:
    """Blank-joined tokens without empty ones and those of the toolkit's punctuation list."""
    return " ".join([token for token in tokens.split(" ") if token and token not in DROPPED])


Bytes = NDArray[np.uint8]
Places = NDArray[np.intp]

_PLAIN = f"{ascii_letters},. ".encode()
_TO_PLAIN = bytes.maketrans(b'":;!', b" ...")
_TO_WORDS = bytes.maketrans(f"{ascii_uppercase},.".encode(), f"{ascii_lowercase}  ".encode())
_NEWLINE, _BLANK, _STOP = b"\n ."
_MARGIN = 8  # so that a window around any place stays inside


def tokenize_plain(lines: Sequence[str]) -> tuple[list[str], list[int]]:
    """The tokens of every plain line, joined by blanks, and the numbers of the lines that are not plain.

    The entry of a line that is not plain is meaningless. Lines have no newline inside.

    >>> tokenize_plain(["Two dogs , one cat.", "the dog's cat"])
    (['two dogs one cat', "the dog's cat"], [1])
    """
    if not lines:
        return [], []
    text = "\n".join(lines).encode("ascii", "replace").translate(_TO_PLAIN)  # other characters: "?", which is not plain
    words = text.translate(_TO_WORDS)
    codes = np.frombuffer(words + b"\n", dtype=np.uint8)
    letters = codes > _BLANK
    keep = letters | (codes == _NEWLINE)
    keep[:-1] |= letters[1:] & (codes[:-1] == _BLANK)  # of several blanks the last, where a word follows
    return codes[keep][:-1].tobytes().decode().split("\n"), _not_plain(text, words)


def _not_plain(text: bytes, words: bytes) -> list[int]:
    others = np.frombuffer(b"\n" + text.translate(None, _PLAIN) + b"\n", dtype=np.uint8)
    strange = np.flatnonzero(np.diff(np.flatnonzero(others == _NEWLINE)) > 1)
    framed = bytes(_MARGIN - 1) + b"\n", b"\n" + bytes(_MARGIN)
    codes, lower = (np.frombuffer(framed[0] + part + framed[1], dtype=np.uint8) for part in (text, words))
    places = np.concatenate([_indents(lower), _halves(lower), _stops(codes, lower)])
    ends = np.flatnonzero(codes[_MARGIN:] == _NEWLINE) + _MARGIN
    return [*map(int, np.union1d(strange, np.searchsorted(ends, places)))]


def _indents(lower: Bytes) -> Places:
    return np.flatnonzero((lower[:-1] == _NEWLINE) & (lower[1:] == _BLANK)) + 1


def _halves(lower: Bytes) -> Places:
    """Places of words that are two tokens: they all double their third letter."""
    doubled = np.flatnonzero(lower[2:-_MARGIN] == lower[3 : 1 - _MARGIN]) + 2
    return doubled[np.isin(_packed(lower[doubled[:, None] + np.arange(-2, 3)]), _HALVED)]


def _stops(codes: Bytes, lower: Bytes) -> Places:
    """Places of stops that do not simply end a sentence: no blank after, or an abbreviation or single letter before."""
    stops = np.flatnonzero(codes == _STOP)
    after = codes[stops + 1]
    before = lower[stops[:, None] - np.arange(1, 9)]  # (stops, 8): letters from the last one back
    before *= np.logical_and.accumulate((before >= ord("a")) & (before <= ord("z")), axis=1)
    odd: Places = stops[((after != _BLANK) & (after != _NEWLINE)) | np.isin(_packed(before), _STOPPED)]
    return odd


def _packed(windows: Bytes) -> NDArray[np.uint64]:
    """Rows of up to eight letters as one number each."""
    rows = np.zeros((len(windows), 8), dtype=np.uint8)
    rows[:, : windows.shape[1]] = windows
    return rows.view(np.uint64)[:, 0]


def _numbers(words: Iterable[str]) -> NDArray[np.uint64]:
    return np.array(
        [int(np.frombuffer(word.encode().ljust(8, b"\0"), dtype=np.uint64)[0]) for word in words], np.uint64
    )


_HALVED = _numbers(["canno", "gonna", "gotta", "wanna", "gimme", "lemme"])
_STOPPED = _numbers(word[::-1] for word in sorted({*STOPPED, *ascii_lowercase}))


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
    """The shadow of what follows a line, as far as the grammar can look: through the next line with a word."""
    following = ""
    for text in map(lines.__getitem__, range(line + 1, len(lines))):  # no copy of all that follows
        following += f"\n{shadow(text)}"
        if text.strip():
            return f"{following}\n"
    return following
