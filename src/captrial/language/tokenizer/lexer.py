"""One caption or a piece of one: the furthest-reaching rule at every place."""

from __future__ import annotations

import re
from collections.abc import Callable

from captrial.language.tokenizer import spelling
from captrial.language.tokenizer.characters import shadow
from captrial.language.tokenizer.grammar import rules_for

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
    spell: Callable[[str], str] = spelling.sign
    for pattern, candidate in rules_for(shade[at]):
        match = pattern.match(shade, at)
        if match and match.end() > reach:
            reach, end, spell = match.end(), match.end(1), candidate
    return end, spell


def drop(tokens: str) -> str:
    """Blank-joined tokens without empty ones and those of the toolkit's punctuation list."""
    return " ".join([token for token in tokens.split(" ") if token and token not in DROPPED])
