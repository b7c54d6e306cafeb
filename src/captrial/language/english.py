"""Detect captions that are not English, from function words and letters alone.

The tokeniser and every metric are made for English; scores of other languages would be meaningless.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

from captrial.language.class_words import default_table, scene_words
from captrial.language.morphology import table_lines

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_ENGLISH_ENDINGS = ("ing", "ight", "ough", "tion", "board", "'s", "ly", "ness")
_PARTICIPLE = re.compile(r"[a-z]{3,}ed")  # lined, baked, tiled
_FEW = 4  # words; a shorter caption without any evidence counts as English


@cache
def _words() -> tuple[frozenset[str], frozenset[str]]:
    """Words that are evidence for English, and words that are evidence for another language."""
    groups: dict[str, set[str]] = {"english": set(), "other": set()}
    section = "other"
    for line in table_lines("english.txt"):
        if line.startswith("["):
            section = "english" if line == "[english]" else "other"
        else:
            groups[section].update(line.split())
    nouns = {word for words in default_table().kinds.values() for word in words if " " not in word} | scene_words()
    known = groups["english"] | nouns
    return frozenset(known - groups["other"]), frozenset(groups["other"] - known)


def looks_english(text: str) -> bool:
    """Whether a caption can be English; one too short to tell, or without words, counts as English.

    >>> looks_english("A man rides a horse."), looks_english("Un hombre monta a caballo."), looks_english("一只狗")
    (True, False, False)
    """
    words = _WORD.findall((text if text.isascii() else unicodedata.normalize("NFC", text)).casefold())
    if not text.isascii():
        letters = "".join(words)
        if sum(letter.isascii() for letter in letters) < 0.7 * len(letters):
            return False
    votes = [_vote(word) for word in words]
    if sum(votes) < 0:
        return False
    return not words or 1 in votes or (-1 not in votes and (len(words) < _FEW or words[0] == "a"))


def not_english(texts: Sequence[str]) -> list[int]:
    """The indices of the texts that do not look English."""
    return [index for index, text in enumerate(texts) if not looks_english(text)]


def language_note(source: str, captions: Sequence[tuple[str, str]]) -> str | None:
    """A warning about captions, as (id, text), that do not look English; None where there is none."""
    found = not_english([text for _, text in captions])
    if not found:
        return None
    image, text = captions[found[0]]
    return (
        f"{source}: {len(found)} of {len(captions)} captions do not look English (the first: id {image}, "
        f"{text[:60]!r}); these metrics are made for English"
    )


@lru_cache(maxsize=1 << 16)
def _vote(word: str) -> int:
    """1 for a word that is evidence for English, -1 for one against it, 0 for neither."""
    english, other = _words()
    if word in other or not word.isascii():
        return -1
    known = word in english or word.removesuffix("s") in english
    return int(known or word.endswith(_ENGLISH_ENDINGS) or _PARTICIPLE.fullmatch(word) is not None)
